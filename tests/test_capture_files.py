from __future__ import annotations

import json
from array import array
from pathlib import Path

import attrs
import pytest

from specbench.capture_facts import Capture, CapturedOutput
from specbench.capture_files import capture_text, read_captures
from specbench.errors import StoreError
from specbench.facts import Output, Window
from tests.conftest import row


def window(concurrency: int) -> Window:
    whole = Output(
        request_id="r0",
        prompt_id="p",
        text="é\nb",
        token_ids=array("q", [5, 6]),
        finish_reason="stop",
        candidates=[((5, 0.0), (9, 1.25)), ((6, 0.0),)],
    )
    lost = attrs.evolve(
        whole, prompt_id="q", text="", token_ids=None, candidates=None, finish_reason=None
    )
    failed = row(1, status="timeout", error="slow", completion_tokens=None)
    return Window(
        rows=(row(0, completion_tokens=2), failed),
        outputs=(whole, lost),
        concurrency=concurrency,
        clock="user",
        started_unix_s=1.5,
    )


def test_captures_come_back_as_they_were_written_one_for_each_concurrency(tmp_path: Path) -> None:
    path = tmp_path / "capture-1.jsonl"
    path.write_text(capture_text([window(8), window(1)]), encoding="utf-8")
    found = read_captures(path, Capture(arm="a", deployment="b01-01-a"))
    assert [(item.concurrency, item.name) for item in found] == [
        (1, "b01-01-a capture 1"),
        (8, "b01-01-a capture 1"),
    ]
    assert found[0].outputs == (
        CapturedOutput(
            prompt_id="p",
            text="é\nb",
            token_ids=(5, 6),
            finish_reason="stop",
            completion_tokens=2,
            candidates=(((5, 0.0), (9, 1.25)), ((6, 0.0),)),
        ),
        CapturedOutput(prompt_id="q", status="timeout", error="slow", text=""),
    )


def test_captures_of_earlier_versions_are_read(tmp_path: Path) -> None:
    path = tmp_path / "capture-1.jsonl"
    line = {"concurrency": 2, "status": "ok", "error": None, "request_id": "r", "prompt_id": "p"}
    path.write_text(json.dumps({**line, "text": "x", "token_ids": [1], "finish_reason": "stop"}))
    (capture,) = read_captures(path, Capture(arm="a", deployment="d"))
    assert capture.outputs[0].candidates is None


@pytest.mark.parametrize("line", ["{", "[]", '{"concurrency": 1}', "7"])
def test_what_is_no_capture_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(capture_text([window(1)]) + line)
    with pytest.raises(StoreError, match=r"c\.jsonl:3: this is no line of a capture"):
        read_captures(path, Capture(arm="a", deployment="d"))
