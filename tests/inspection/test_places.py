from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import attrs
import pytest

from specbench.artifacts import RunFolder
from specbench.errors import StoreError
from specbench.inspection.places import attempt_facts, cell_facts, find_place, find_run, place_facts
from specbench.judge.cells import summarise
from specbench.whole_files import read_json
from tests.conftest import FinishedRun


@pytest.fixture
def runs(finished: FinishedRun, tmp_path: Path) -> Path:
    """Two copies of the finished run: `one-x` and, active later, `one-y`."""
    for name in ("one-x", "one-y"):
        shutil.copytree(finished.run, tmp_path / "runs" / name)
    journal = (tmp_path / "runs" / "one-y" / "journal.jsonl").read_text().splitlines()
    newest = max(float(line.split()[1].rstrip(",")) for line in journal)
    later = journal[-1].replace(journal[-1].split()[1], f"{newest + 60},", 1)
    (tmp_path / "runs" / "one-y" / "journal.jsonl").write_text(later + "\n")
    return tmp_path / "runs"


def test_a_run_is_found_by_folder_name_or_start_of_its_name(runs: Path) -> None:
    for wanted in (str(runs / "one-x"), "one-x"):
        assert find_run(runs, wanted).path.name == "one-x"
    shutil.rmtree(runs / "one-y")
    assert find_run(runs, "on").path.name == "one-x"


def test_without_a_name_the_run_that_was_active_last_is_meant(runs: Path) -> None:
    assert find_run(runs, None).path.name == "one-y"


def test_a_whole_name_counts_before_the_start_of_another(runs: Path) -> None:
    shutil.copytree(runs / "one-x", runs / "one-x.2")
    assert find_run(runs, "one-x").path.name == "one-x"


def test_a_run_folder_is_found_where_one_stands(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs / "one-x")
    assert find_run(Path("nowhere"), ".").path.name == "one-x"


def test_what_is_not_known_is_refused_with_what_is(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="several runs begin with 'one'") as found:
        find_run(runs, "one")
    assert found.value.hint == "known: one-x, one-y"
    with pytest.raises(StoreError, match="there is no run 'two'"):
        find_run(runs, "two")
    with pytest.raises(StoreError, match="there is no run in"):
        find_run(tmp_path / "empty", None)


def test_a_place_is_found_by_name_by_path_and_without_its_attempt(runs: Path) -> None:
    attempt = RunFolder(runs / "one-x").attempts()[0]
    for run in ("one-x", str(runs / "one-x"), os.path.relpath(runs / "one-x")):
        for deployment in (attempt.path.name, attempt.deployment):
            place = find_place(runs, f"{run}/{deployment}")
            assert (place.attempt.path.name, place.cell) == (attempt.path.name, None)
            place = find_place(runs, f"{run}/{deployment}/mixed-greedy-c4/")
            assert place.attempt.path.name == attempt.path.name
            assert place.cell is not None
            assert place.cell.path.name == "mixed-greedy-c4"


def test_without_its_number_the_newest_attempt_is_meant(runs: Path) -> None:
    deployment = RunFolder(runs / "one-x").attempts()[0].deployment
    for number in (2, 10):
        (runs / "one-x" / f"{deployment}-a{number}").mkdir()
    assert find_place(runs, f"one-x/{deployment}").attempt.attempt == 10


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("one-x", "names no deployment"),
        ("one-x/b09-01-nothing", "no deployment 'b09-01-nothing'"),
        ("one-x/{first}/nothing", "no whole cell 'nothing'"),
        ("two/{first}", "there is no run 'two'"),
    ],
)
def test_a_place_that_is_not_there_is_refused(runs: Path, text: str, said: str) -> None:
    first = RunFolder(runs / "one-x").attempts()[0].path.name
    with pytest.raises(StoreError, match=said):
        find_place(runs, text.format(first=first))


def test_a_deployment_shows_what_its_files_hold(finished: FinishedRun) -> None:
    attempt = next(a for a in RunFolder(finished.run).attempts() if "eagle" in a.deployment)
    facts = attempt_facts(attempt)
    assert facts["command"] == read_json(attempt.path / "launch.json")["argv"]
    method = next(fact for fact in facts["facts"] if fact["name"] == "method")
    assert (method["value"], method["source"]) == (
        "eagle3",
        "server_info: speculative_config.method",
    )
    assert {verdict["outcome"] for verdict in facts["verdicts"]} == {"pass"}
    assert facts["closing"]["status"] == "complete"
    assert list(facts["cells"]) == ["mixed-greedy-c1", "mixed-greedy-c4"]
    assert facts["cells"]["mixed-greedy-c4"]["requests"] == 12


def test_an_attempt_that_came_to_nothing_shows_nothing(runs: Path) -> None:
    (runs / "one-x/b03-01-baseline-a1").mkdir()
    place = find_place(runs, "one-x/b03-01-baseline")
    assert place_facts(place) == {
        "run": "one-x",
        "attempt": "b03-01-baseline-a1",
        "simulated": True,
        "rehearsal": False,
        "command": None,
        "environment": {},
        "facts": [],
        "verdicts": [],
        "closing": None,
        "cells": {},
    }


def test_a_cell_shows_its_facts_its_rows_by_status_and_its_numbers(finished: FinishedRun) -> None:
    cell = RunFolder(finished.run).attempts()[0].cells()["mixed-greedy-c4"]
    facts = cell_facts(cell)
    assert facts["cell"] == "mixed-greedy-c4"
    assert facts["facts"] == read_json(cell.path / "cell.json")
    assert facts["rows"] == Counter(ok=12)
    assert facts["summary"] == attrs.asdict(summarise(cell.rows(), 4))


def test_rows_that_cannot_be_read_send_to_verify(runs: Path) -> None:
    attempt = RunFolder(runs / "one-x").attempts()[0]
    cell = attempt.cells()["mixed-greedy-c4"]
    for spoil in (lambda path: path.write_text("no parquet"), Path.unlink):
        spoil(cell.path / "requests.parquet")
        with pytest.raises(StoreError, match="cannot be read") as found:
            cell_facts(cell)
        assert "specbench verify" in found.value.hint
