from __future__ import annotations

import json
import shutil
from pathlib import Path

from specbench.artifacts import RunFolder
from specbench.looks import FILE, looks, measured_blocks, note_look
from specbench.store.ingest import ingest
from specbench.store.store import opened, rows
from tests.conftest import FinishedRun, run_cli


def copied(finished: FinishedRun, folder: Path) -> RunFolder:
    path = folder / "runs" / finished.run.name
    shutil.copytree(finished.run, path)
    (path / FILE).unlink(missing_ok=True)
    return RunFolder(path)


def test_the_report_of_a_run_is_its_first_look(finished: FinishedRun) -> None:
    first = looks(RunFolder(finished.run))[0]
    assert (first.made_by, first.blocks) == ("run", 2)


def test_each_command_that_shows_results_leaves_a_look(
    finished: FinishedRun, tmp_path: Path
) -> None:
    run = copied(finished, tmp_path)
    where = ("--runs", run.path.parent, "--results", finished.results)
    for done in (
        run_cli("report", run.path.name, *where, "--json"),
        run_cli("query", "select 1", *where),
        run_cli("export", run.path.name, *where, "--out", tmp_path / "out", "--format", "csv"),
    ):
        assert done.exit_code == 0, done.output
    assert [look.made_by for look in looks(run)] == ["report", "query", "export"]


def test_looks_before_the_last_block_are_counted_by_how_many_blocks_there_were(
    finished: FinishedRun, tmp_path: Path
) -> None:
    run = copied(finished, tmp_path)
    told = [{"unix_s": 1.0, "made_by": "report", "blocks": blocks} for blocks in (1, 1, 2)]
    (run.path / FILE).write_text("".join(json.dumps(one) + "\n" for one in told) + '{"unix_s"')
    results = tmp_path / "results.duckdb"
    ingest(run.path.parent, results)
    with opened(results) as connection:
        (found,) = rows(connection, "select looks, at_blocks, before_last from looked")
    assert found == {"looks": 3, "at_blocks": [1, 2], "before_last": 1}


def test_a_run_without_a_whole_block_has_nothing_to_look_at(
    finished: FinishedRun, tmp_path: Path
) -> None:
    run = copied(finished, tmp_path)
    for closing in run.path.glob("*baseline*/deployment.json"):
        closing.unlink()
    assert measured_blocks(run) == 0
    note_look(run, "report")
    assert looks(run) == ()


def test_results_are_shown_where_no_look_can_be_kept(tmp_path: Path) -> None:
    note_look(RunFolder(tmp_path / "gone"), "report")
    assert not (tmp_path / "gone").exists()
