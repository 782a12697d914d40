from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

from specbench.artifacts import AttemptFolder, RunFolder, opened_run, run_path
from specbench.errors import StoreError
from specbench.experiment.identity import run_digest
from specbench.experiment.read import ReadExperiment
from specbench.facts import JournalEntry, Output, Window
from specbench.whole_files import file_digest, write_text
from tests.conftest import SMALL, FinishedRun, row


def test_the_digest_is_of_what_is_measured(read_small: Callable[..., ReadExperiment]) -> None:
    own = run_digest(read_small())
    assert run_digest(read_small(SMALL.replace("blocks: 2", "blocks: 9"))) == own
    assert run_digest(read_small(SMALL.replace("name: small", "name: other"))) == own
    assert run_digest(read_small(SMALL.replace("speed: 20", "speed: 2"))) != own
    assert (
        run_digest(read_small(SMALL.replace("max_tokens", "x").replace("[1, 4]", "[1, 4, 5]")))
        != own
    )


def window() -> Window:
    failed = row(
        1,
        status="timeout",
        error="slow",
        finish_reason=None,
        completion_tokens=None,
        event_ns=(),
        event_tokens=(),
        first_payload_ns=None,
        last_payload_ns=None,
    )
    unknown = row(2, event_tokens=(None, 3))
    outputs = tuple(
        Output(
            request_id=f"r{n}",
            prompt_id="p",
            text="é",
            token_ids=(1, 2) if n else None,
            finish_reason=None,
        )
        for n in range(3)
    )
    return Window(
        rows=(row(0), failed, unknown),
        outputs=outputs,
        concurrency=2,
        clock="user",
        started_unix_s=1.5,
    )


def test_a_cell_comes_back_as_it_was_written(tmp_path: Path) -> None:
    attempt = RunFolder(tmp_path).open_attempt("b01-01-x")
    cell = attempt.write_cell("c", window(), before="a 1\n", after="a 2\n", facts={"settled": True})
    assert cell.rows() == window().rows
    assert cell.counters() == ("a 1\n", "a 2\n")
    assert cell.facts()["settled"] is True
    assert list(attempt.cells()) == ["c"]


def test_a_cell_names_the_digests_of_its_files(finished: FinishedRun) -> None:
    cells = [
        cell for attempt in RunFolder(finished.run).attempts() for cell in attempt.cells().values()
    ]
    assert len(cells) == 12
    for cell in cells:
        said = cell.facts()["sha256"]
        assert set(said) == {
            "requests.parquet",
            "outputs.parquet",
            "metrics-before.txt",
            "metrics-after.txt",
            "samples.parquet",
        }
        assert all(file_digest(cell.path / name) == digest for name, digest in said.items())


def test_a_cell_that_was_not_finished_is_no_cell(tmp_path: Path) -> None:
    attempt = RunFolder(tmp_path).open_attempt("b01-01-x")
    half = attempt.path / ".c.partial"
    half.mkdir()
    (half / "cell.json").write_text("{}")
    assert attempt.cells() == {}


def test_an_attempt_is_closed_once(tmp_path: Path) -> None:
    attempt = RunFolder(tmp_path).open_attempt("b01-01-x")
    assert attempt.closing() is None
    attempt.close("failed", reason="x")
    assert attempt.closing() == {"status": "failed", "reason": "x", "sha256": {}}
    with pytest.raises(StoreError, match="closed already"):
        attempt.close("complete")


def test_attempts_are_counted_by_deployment(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    names = [run.open_attempt(name).path.name for name in ("b01-01-x", "b01-01-x", "b01-02-x-a9")]
    assert names == ["b01-01-x-a1", "b01-01-x-a2", "b01-02-x-a9-a1"]
    assert AttemptFolder(tmp_path / "b01-02-x-a9-a1").deployment == "b01-02-x-a9"
    assert run.close_interrupted() == names
    assert run.close_interrupted() == []


def test_a_torn_last_line_of_the_journal_is_left_out(tmp_path: Path) -> None:
    entry = JournalEntry(unix_s=1.0, monotonic_ns=5, phase="drive", state="start", detail={"n": 1})
    run = RunFolder(tmp_path)
    run.note(entry)
    run.note(attrs.evolve(entry, state="end"))
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write('{"unix_s": 2.0, "mono')
    assert run.journal() == [entry, attrs.evolve(entry, state="end")]
    with opened_run(tmp_path) as again:
        again.note(entry)
    assert run.journal() == [entry, attrs.evolve(entry, state="end"), entry]


def test_a_run_is_locked_against_another_specbench(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from specbench.artifacts import opened_run\n"
        "with opened_run(Path(sys.argv[1]) / 'x-d'): pass"
    )
    with opened_run(tmp_path / "x-d"):
        done = subprocess.run(
            [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False
        )
        assert "another specbench works in" in done.stderr
    assert subprocess.run([sys.executable, "-c", script, tmp_path], check=False).returncode == 0


def test_text_is_whole_or_absent(tmp_path: Path) -> None:
    write_text(tmp_path / "x.json", json.dumps({"a": 1}))
    assert [path.name for path in tmp_path.iterdir()] == ["x.json"]


def test_a_sibling_run_gets_a_number_and_the_newest_goes_on(tmp_path: Path) -> None:
    assert run_path(tmp_path, "x-d", again=False).name == "x-d"
    (tmp_path / "x-d").mkdir()
    assert run_path(tmp_path, "x-d", again=False).name == "x-d"
    assert run_path(tmp_path, "x-d", again=True).name == "x-d.2"
    (tmp_path / "x-d.2").mkdir()
    assert run_path(tmp_path, "x-d", again=False).name == "x-d.2"
    assert run_path(tmp_path, "x-d", again=True).name == "x-d.3"
