from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from specbench.artifacts import RunFolder, opened_run
from specbench.errors import StoreError
from specbench.facts import JournalEntry
from specbench.inspection.state import is_going_on, last_entry, run_state
from specbench.whole_files import read_json, write_json
from tests.conftest import FinishedRun


@pytest.fixture
def folder(finished: FinishedRun, tmp_path: Path) -> RunFolder:
    """A copy of the finished run: 2 blocks of 3 arms with 2 cells each."""
    return RunFolder(Path(shutil.copytree(finished.run, tmp_path / "runs" / finished.run.name)))


def attempt(folder: RunFolder, deployment: str) -> Path:
    return folder.attempts(deployment)[-1].path


def first(folder: RunFolder, arm: str) -> str:
    """Give the name of an arm's deployment in block 1."""
    return next(
        item.deployment
        for item in folder.attempts()
        if item.deployment.startswith("b01") and item.deployment.endswith(arm)
    )


def entry(unix_s: float, phase: str = "drive") -> JournalEntry:
    return JournalEntry(unix_s=unix_s, monotonic_ns=0, phase=phase, state="start")


def test_a_run_of_which_all_is_done_is_complete(folder: RunFolder) -> None:
    state = run_state(folder)
    assert state.status == "complete"
    assert (state.complete, len(state.deployments)) == (6, 6)
    assert (state.cells_done, state.cells_planned) == (12, 12)
    assert state.plan is not None
    assert state.plan.simulated
    assert not state.spoiled_blocks
    assert state.asked_blocks is None


def test_the_last_activity_is_the_last_line_of_the_journal(folder: RunFolder) -> None:
    journal = folder.journal()
    assert last_entry(folder) == journal[-1]
    assert run_state(folder).last_activity_unix_s == journal[-1].unix_s


def test_a_torn_last_line_of_the_journal_is_no_step(folder: RunFolder) -> None:
    folder.note(entry(5.0))
    with (folder.path / "journal.jsonl").open("a") as journal:
        journal.write('{"unix_s": 6.0, "phase": "dr')
    assert last_entry(folder) == entry(5.0)


def test_a_run_without_a_journal_was_last_active_when_it_was_planned(folder: RunFolder) -> None:
    (folder.path / "journal.jsonl").unlink()
    state = run_state(folder)
    assert state.last is None
    assert state.last_activity_unix_s == (folder.path / "plan.json").stat().st_mtime
    assert not (folder.path / "journal.jsonl").exists()


def test_a_run_goes_on_while_its_lock_is_held(folder: RunFolder) -> None:
    (attempt(folder, first(folder, "baseline")) / "deployment.json").unlink()
    with opened_run(folder.path):
        assert is_going_on(folder)
        state = run_state(folder)
        assert state.status == "going on"
        assert [d.status for d in state.deployments].count("going on") == 1
    assert not is_going_on(folder)
    assert run_state(folder).status == "interrupted"


def test_looking_at_a_run_does_not_hold_it(folder: RunFolder) -> None:
    assert not is_going_on(folder)
    with opened_run(folder.path):
        pass


def test_an_attempt_that_is_not_closed_was_interrupted(folder: RunFolder) -> None:
    name = first(folder, "ngram-k3")
    path = attempt(folder, name)
    (path / "deployment.json").unlink()
    shutil.rmtree(path / "mixed-greedy-c4")
    state = run_state(folder)
    (found,) = (item for item in state.deployments if item.plan.name == name)
    assert found.status == "interrupted"
    assert found.done == ("mixed-greedy-c1",)
    assert state.status == "interrupted"
    assert (state.complete, state.cells_done) == (5, 11)


def test_a_deployment_without_an_attempt_is_not_begun(folder: RunFolder) -> None:
    name = first(folder, "eagle-k3")
    shutil.rmtree(attempt(folder, name))
    state = run_state(folder)
    (found,) = (item for item in state.deployments if item.plan.name == name)
    assert (found.status, found.attempts, found.done) == ("not begun", (), ())
    assert state.status == "interrupted"


def test_cells_of_several_attempts_count_together(folder: RunFolder) -> None:
    name = first(folder, "ngram-k3")
    old = attempt(folder, name)
    new = old.with_name(f"{name}-a10")
    new.mkdir()
    (old / "mixed-greedy-c4").rename(new / "mixed-greedy-c4")
    (old / "deployment.json").rename(new / "deployment.json")
    write_json(old / "deployment.json", {"status": "interrupted", "reason": "the lamp went out"})
    between = old.with_name(f"{name}-a2")
    between.mkdir()
    write_json(between / "deployment.json", {"status": "failed", "reason": "no memory"})
    (found,) = (item for item in run_state(folder).deployments if item.plan.name == name)
    told = [(item.name.rpartition("-")[2], item.status) for item in found.attempts]
    assert told == [("a1", "interrupted"), ("a2", "failed"), ("a10", "complete")]
    assert (found.status, found.reason, len(found.done)) == ("complete", "", 2)


def test_a_cell_that_was_aborted_is_not_done(folder: RunFolder) -> None:
    path = attempt(folder, first(folder, "ngram-k3")) / "mixed-greedy-c4/cell.json"
    write_json(path, read_json(path) | {"aborted": True})
    assert run_state(folder).cells_done == 11


def fail(folder: RunFolder, deployment: str) -> None:
    path = attempt(folder, deployment)
    write_json(path / "deployment.json", {"status": "failed", "reason": "out of memory"})


def test_an_arm_that_failed_leaves_the_run_incomplete(folder: RunFolder) -> None:
    fail(folder, first(folder, "ngram-k3"))
    state = run_state(folder)
    assert state.status == "incomplete"
    assert [d.reason for d in state.deployments if d.reason] == ["out of memory"]
    assert state.spoiled_blocks == frozenset()


def test_a_block_without_its_baseline_is_spoiled_and_not_waited_for(folder: RunFolder) -> None:
    fail(folder, first(folder, "baseline"))
    shutil.rmtree(attempt(folder, first(folder, "ngram-k3")))
    state = run_state(folder)
    assert state.spoiled_blocks == {1}
    assert state.status == "incomplete"


def planned_blocks(folder: RunFolder, *, written: int) -> None:
    plan = read_json(folder.path / "plan.json")
    plan["experiment"]["design"]["blocks"] = written
    write_json(folder.path / "plan.json", plan)


@pytest.mark.parametrize(
    ("written", "spoiled", "asked"),
    [(2, 0, None), (5, 0, 2), (1, 0, 2), (1, 1, None), (2, 1, None), (3, 1, 1)],
)
def test_blocks_are_asked_for_where_the_document_does_not_say_them(
    folder: RunFolder, written: int, spoiled: int, asked: int | None
) -> None:
    """The plan has 2 blocks. With one spoiled, 1 was asked for and one appended, or 2 were."""
    planned_blocks(folder, written=written)
    if spoiled:
        fail(folder, first(folder, "baseline"))
    assert run_state(folder).asked_blocks == asked


DAMAGED = ("{", "[]", "{}", json.dumps({"simulated": True, "deployments": [{"name": "x"}]}))


@pytest.mark.parametrize("text", DAMAGED)
def test_a_plan_that_cannot_be_read_is_told_and_not_raised(folder: RunFolder, text: str) -> None:
    (folder.path / "plan.json").write_text(text)
    state = run_state(folder)
    assert state.status == "unreadable"
    assert "plan.json" in state.problem
    assert (state.plan, state.deployments, state.asked_blocks) == (None, (), None)


def test_a_damaged_cell_makes_the_run_unreadable_with_its_path(folder: RunFolder) -> None:
    path = attempt(folder, first(folder, "ngram-k3")) / "mixed-greedy-c4/cell.json"
    path.write_text("{")
    assert str(path) in run_state(folder).problem
    with pytest.raises(StoreError):
        read_json(path)
