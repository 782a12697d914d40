"""Captures to lines of JSON and back: `capture-1.jsonl` of a run, or a file of one's own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import attrs
import cattrs

from specbench.capture_facts import Capture, CapturedOutput
from specbench.errors import StoreError
from specbench.facts import Output, RequestRow, Window


def capture_text(windows: Sequence[Window]) -> str:
    """Give one capture as text: a line for each prompt at each concurrency, failed ones too."""
    lines = [
        json.dumps(_line(window, row, output), ensure_ascii=False, separators=(",", ":"))
        for window in windows
        for row, output in zip(window.rows, window.outputs, strict=True)
    ]
    return "\n".join(lines) + "\n"


def _line(window: Window, row: RequestRow, output: Output) -> dict[str, Any]:
    return {
        "concurrency": window.concurrency,
        "prompt_id": output.prompt_id,
        "status": row.status,
        "error": row.error,
        "text": output.text,
        "finish_reason": output.finish_reason,
        "completion_tokens": row.completion_tokens,
        # Token ids are packed in an array.
        "token_ids": None if output.token_ids is None else list(output.token_ids),
        "candidates": output.candidates,
    }


def read_captures(path: Path, about: Capture) -> tuple[Capture, ...]:
    """Give the captures of a file, one for each concurrency in it, with all else as in `about`.

    Raises:
        StoreError: The file cannot be read, or a line of it is none of a capture.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    found: list[tuple[int, CapturedOutput]] = []
    for place, line in enumerate(lines, 1):
        try:
            said = json.loads(line)
            found.append((int(said["concurrency"]), cattrs.structure(said, CapturedOutput)))
        except (ValueError, TypeError, LookupError, cattrs.BaseValidationError) as error:
            raise StoreError(
                f"{path}:{place}: this is no line of a capture ({type(error).__name__})",
                "write captures with `specbench correctness capture`",
            ) from error
    found.sort(key=lambda item: item[0])
    return tuple(
        attrs.evolve(about, concurrency=concurrency, outputs=tuple(output for _, output in group))
        for concurrency, group in groupby(found, key=lambda item: item[0])
    )
