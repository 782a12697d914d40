"""Explanations that people record for a verdict of the correctness gate, in the run's folder.

They are shown wherever the verdict is, and change none. Nothing that is measured depends on them,
so they are no part of the experiment and its digest.
"""

from __future__ import annotations

import json
import time

import attrs
import cattrs

from specbench.artifacts import RunFolder
from specbench.errors import StoreError

FILE = "explanations.jsonl"


@attrs.frozen(kw_only=True)
class Explanation:
    """What a person says of an arm's verdict."""

    arm: str
    concurrency: int | None = None
    """None: of every concurrency."""
    text: str
    unix_s: float


def record(folder: RunFolder, arm: str, concurrency: int | None, text: str) -> None:
    """Append an explanation. Nothing is ever taken back; the latest is shown.

    Raises:
        StoreError: The folder cannot be written.
    """
    said = Explanation(arm=arm, concurrency=concurrency, text=text.strip(), unix_s=time.time())
    line = json.dumps(attrs.asdict(said), ensure_ascii=False)
    try:
        with (folder.path / FILE).open("a", encoding="utf-8") as file:
            file.write(folder.redaction.text(line) + "\n")
    except OSError as error:
        raise StoreError(f"cannot write to {folder.path}: {error.strerror}") from error


def explanation(folder: RunFolder, arm: str, concurrency: int) -> str:
    """Give the latest explanation of a verdict; empty where there is none.

    Raises:
        StoreError: A line of the file is no explanation.
    """
    path, found = folder.path / FILE, ""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for place, line in enumerate(lines, 1):
        try:
            said = cattrs.structure(json.loads(line), Explanation)
        except (ValueError, TypeError, LookupError, cattrs.BaseValidationError) as error:
            raise StoreError(
                f"{path}:{place}: this is no explanation",
                "write one with `specbench correctness explain`",
            ) from error
        if said.arm == arm and said.concurrency in (None, concurrency):
            found = said.text
    return found
