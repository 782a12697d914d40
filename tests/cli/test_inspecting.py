from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from specbench.artifacts import RunFolder, find_runs, opened_run
from specbench.cli.run_text import command
from specbench.errors import StoreError
from specbench.facts import JournalEntry
from specbench.inspection.state import run_state
from specbench.store.export import TABLES
from specbench.whole_files import read_json, write_json
from tests.conftest import FinishedRun, run_cli


@pytest.fixture
def runs(finished: FinishedRun, tmp_path: Path) -> Path:
    """A folder with a copy of the finished run."""
    shutil.copytree(finished.run, tmp_path / "runs" / finished.run.name)
    return tmp_path / "runs"


def only(runs: Path) -> RunFolder:
    (run,) = find_runs(runs)
    return run


def interrupt(runs: Path) -> str:
    """Leave the last deployment open, with one cell, and give its name."""
    attempt = only(runs).attempts()[-1]
    (attempt.path / "deployment.json").unlink()
    (attempt.path / "mixed-greedy-c4").rename(attempt.path / ".mixed-greedy-c4.partial")
    return attempt.deployment


def test_runs_lists_each_run_marked_and_counted(runs: Path) -> None:
    said = run_cli("runs", "--runs", runs).output.splitlines()
    assert said[0].split() == ["run", "state", "deployments", "cells", "last", "activity", "kind"]
    name, state, deployments, cells, day, clock, kind = said[1].split()
    assert (name, state, kind) == (only(runs).path.name, "complete", "SIMULATED")
    assert (deployments, cells) == ("6/6", "12/12")
    last = only(runs).journal()[-1].unix_s
    assert time.mktime(time.strptime(f"{day} {clock}", "%Y-%m-%d %H:%M:%S")) == int(last)


def test_runs_as_json(runs: Path) -> None:
    (found,) = json.loads(run_cli("runs", "--runs", runs, "--json").output)
    assert found == {
        "run": only(runs).path.name,
        "path": str(only(runs).path),
        "state": "complete",
        "problem": "",
        "simulated": True,
        "rehearsal": False,
        "deployments": {"complete": 6, "planned": 6},
        "cells": {"whole": 12, "planned": 12},
        "last_activity_unix_s": only(runs).journal()[-1].unix_s,
    }


def test_a_run_that_cannot_be_read_does_not_hide_the_others(runs: Path) -> None:
    (runs / "broken").mkdir()
    (runs / "broken/plan.json").write_text("{")
    done = run_cli("runs", "--runs", runs)
    assert done.exit_code == 0
    assert [line.split()[1] for line in done.output.splitlines()[1:3]] == ["unreadable", "complete"]
    assert "broken: " in done.output
    assert run_cli("status", "broken", "--runs", runs).exit_code == 0


def test_no_run_is_no_error_of_runs(tmp_path: Path) -> None:
    assert run_cli("runs", "--runs", tmp_path / "none").output == "no rows\n"


def test_status_of_a_complete_run_has_nothing_to_go_on_with(runs: Path) -> None:
    said = run_cli("status", "--runs", runs).output
    assert "complete  SIMULATED" in said.splitlines()[0]
    assert "6 of 6 deployments, 12 of 12 cells" in said
    assert "to go on" not in said


def test_status_of_an_interrupted_run_gives_the_command_that_goes_on(runs: Path) -> None:
    name = interrupt(runs)
    said = run_cli("status", only(runs).path.name[:7], "--runs", runs).output
    (line,) = (line for line in said.splitlines() if line.startswith(f"{name} "))
    assert line.split() == [name, "interrupted", "1/2", "a1", "interrupted", "-"]
    assert "5 of 6 deployments, 11 of 12 cells" in said
    assert said.splitlines()[-1] == f"to go on: specbench run {only(runs).path}"


def test_the_command_that_status_gives_does_go_on(runs: Path, tmp_path: Path) -> None:
    interrupt(runs)
    told = json.loads(run_cli("status", "--runs", runs, "--json").output)["command"]
    places = ["--results", tmp_path / "r.duckdb", "--reports", tmp_path / "reports"]
    assert told[:2] == ["specbench", "run"]
    done = run_cli(*told[1:], *places)
    assert done.exit_code == 0, done.output
    assert run_state(only(runs)).status == "complete"


def test_a_plan_with_more_blocks_than_its_document_says_so(runs: Path) -> None:
    interrupt(runs)
    plan = read_json(only(runs).path / "plan.json")
    plan["experiment"]["design"]["blocks"] = 1
    write_json(only(runs).path / "plan.json", plan)
    told = command(run_state(only(runs)))
    assert told == ["specbench", "run", str(only(runs).path), "--blocks", "2"]


@pytest.mark.parametrize("change", [{"spec": None}, {"rehearsal": True}])
def test_what_cannot_be_gone_on_with_gets_no_command(runs: Path, change: dict[str, object]) -> None:
    interrupt(runs)
    plan = read_json(only(runs).path / "plan.json")
    write_json(only(runs).path / "plan.json", plan | change)
    assert command(run_state(only(runs))) is None


def test_status_says_what_happens_now(runs: Path) -> None:
    name = interrupt(runs)
    run = only(runs)
    step = JournalEntry(
        unix_s=time.time(),
        monotonic_ns=0,
        phase="drive",
        state="start",
        deployment=f"{name}-a1",
        cell="mixed-greedy-c4",
    )
    run.note(step)
    with opened_run(run.path):
        said = run_cli("status", run.path).output
        told = json.loads(run_cli("status", run.path, "--json").output)
    assert f"now: {name}-a1 mixed-greedy-c4: measuring, " in said
    assert "to go on" not in said
    assert (told["state"], told["command"]) == ("going on", None)
    assert told["last_step"]["phase"] == "drive"
    (open_one,) = (item for item in told["planned"] if item["status"] == "going on")
    assert (open_one["name"], open_one["cells_whole"]) == (name, ["mixed-greedy-c1"])
    assert [item["status"] for item in open_one["attempts"]] == ["going on"]


def test_status_tells_of_a_block_without_its_baseline(runs: Path) -> None:
    attempt = next(a for a in only(runs).attempts() if "baseline" in a.deployment)
    write_json(attempt.path / "deployment.json", {"status": "failed", "reason": "no memory"})
    said = run_cli("status", "--runs", runs).output
    assert "block 1 has no baseline" in said
    assert "no memory" in said


def test_show_tells_of_a_deployment_its_command_audit_verdicts_and_cells(runs: Path) -> None:
    attempt = next(a for a in only(runs).attempts() if "eagle" in a.deployment)
    said = run_cli("show", attempt.path).output
    lines = said.splitlines()
    assert lines[0] == f"{only(runs).path.name}/{attempt.path.name}  SIMULATED"
    assert shlex.split(lines[1]) == read_json(attempt.path / "launch.json")["argv"]
    assert ["status", "complete"] in [line.split() for line in lines]
    assert ["in_effect.method", "pass", "eagle3", "eagle3"] in [line.split() for line in lines]
    assert "server_info: speculative_config.method" in said
    assert ["mixed-greedy-c4", "mixed", "greedy", "4", "12", "False"] in [
        line.split() for line in lines
    ]


def test_show_tells_of_a_cell_its_numbers(runs: Path) -> None:
    attempt = only(runs).attempts()[0]
    place = f"{only(runs).path.name}/{attempt.deployment}/mixed-greedy-c4"
    lines = [line.split() for line in run_cli("show", place, "--runs", runs).output.splitlines()]
    assert ["successes", "12"] in lines
    assert ["ok", "12"] in lines
    told = json.loads(run_cli("show", place, "--runs", runs, "--json").output)
    tokens = sum(row.completion_tokens or 0 for row in attempt.cells()["mixed-greedy-c4"].rows())
    assert told["summary"]["output_tokens"] == tokens
    assert (told["rows"], told["simulated"]) == ({"ok": 12}, True)


def test_show_of_what_was_never_launched(runs: Path) -> None:
    (only(runs).path / "b03-01-baseline-a1").mkdir()
    said = run_cli("show", f"{only(runs).path}/b03-01-baseline").output
    assert "no server was started" in said
    assert "not closed" in said


def shell(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    order = [sys.executable, "-m", "specbench", *map(str, arguments)]
    return subprocess.run(order, capture_output=True, text=True, check=False)


def test_verify_exits_0_when_all_holds(runs: Path) -> None:
    name = interrupt(runs)
    done = run_cli("verify", "--runs", runs)
    assert done.exit_code == 0
    assert done.output.count(" whole") == 12
    assert f"{name}-a1 " in done.output
    assert "not closed" in done.output
    assert f"{name}-a1/.mixed-greedy-c4.partial" in done.output
    assert done.output.splitlines()[-1] == "11 of 11 cells are whole"


def test_verify_exits_6_and_names_the_file(runs: Path) -> None:
    attempt = only(runs).attempts()[0]
    with (attempt.path / "mixed-greedy-c1/requests.parquet").open("ab") as file:
        file.write(b"x")
    (attempt.path / "mixed-greedy-c4/metrics-after.txt").unlink()
    done = shell("verify", only(runs).path)
    assert done.returncode == 6
    told = [line.split(maxsplit=1) for line in done.stdout.splitlines()]
    name = attempt.path.name
    assert [f"{name}/mixed-greedy-c1", "changed: requests.parquet"] in told
    assert [f"{name}/mixed-greedy-c4", "missing: metrics-after.txt"] in told
    assert done.stdout.splitlines()[-1] == "10 of 12 cells are whole"
    assert done.stderr == f"error: not as it was written: {only(runs).path.name}\n"


def test_verify_without_a_run_looks_at_every_one(runs: Path) -> None:
    shutil.copytree(only(runs).path, runs / "older")
    (runs / "older/plan.json").write_text("{")
    done = run_cli("verify", "--runs", runs)
    assert isinstance(done.exception, StoreError)
    assert str(done.exception) == "not as it was written: older"
    assert "24 of 24 cells are whole" in done.output


def test_verify_of_nothing_is_refused(tmp_path: Path) -> None:
    assert isinstance(run_cli("verify", "--runs", tmp_path).exception, StoreError)


def test_export_names_the_files_it_wrote(finished: FinishedRun, tmp_path: Path) -> None:
    order = ("export", finished.run.name, "--results", finished.results, "--out", tmp_path)
    done = run_cli(*order)
    assert done.exit_code == 0, done.output
    assert sorted(map(Path, done.output.split())) == sorted(tmp_path.iterdir())
    assert len(done.output.split()) == 2 * len(TABLES)
    assert run_cli(*order, "--format", "csv").output.split()[0].endswith("experiments.csv")


def test_export_refuses_a_format_that_is_none(finished: FinishedRun, tmp_path: Path) -> None:
    order = ("export", finished.run.name, "--out", tmp_path / "x", "--format", "csv,xlsx")
    done = shell(*order)
    assert (done.returncode, "'xlsx' is none of csv, parquet" in done.stderr) == (2, True)
    assert not (tmp_path / "x").exists()


def test_query_as_csv_guards_formulas_and_leaves_numbers(finished: FinishedRun) -> None:
    sql = "select '=1+1' as text, -2 as n"
    done = run_cli("query", sql, "--results", finished.results, "--format", "csv")
    assert done.output == "text,n\n'=1+1,-2\n"
