from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from specbench.artifacts import AttemptFolder, RunFolder, opened_run
from specbench.inspection.digests import FOLDER, CellCheck, check_run
from specbench.whole_files import read_json, write_json
from tests.conftest import FinishedRun

CELL = "mixed-greedy-c4"


@pytest.fixture
def folder(finished: FinishedRun, tmp_path: Path) -> RunFolder:
    return RunFolder(Path(shutil.copytree(finished.run, tmp_path / finished.run.name)))


@pytest.fixture
def attempt(folder: RunFolder) -> AttemptFolder:
    return folder.attempts()[0]


def broken(folder: RunFolder) -> list[CellCheck]:
    check = check_run(folder)
    wrong = [cell for cell in check.cells if not cell.holds]
    assert check.holds == (not wrong)
    return wrong


def test_a_run_as_it_was_written_holds(folder: RunFolder) -> None:
    check = check_run(folder)
    assert check.holds
    assert len(check.cells) == 12
    assert check.cells[0] == CellCheck(name=f"{folder.attempts()[0].path.name}/mixed-greedy-c1")
    assert (check.open_attempts, check.leftovers, check.problem) == ((), (), "")


def test_one_changed_byte_is_found_with_its_file(folder: RunFolder, attempt: AttemptFolder) -> None:
    path = attempt.path / CELL / "outputs.parquet"
    content = bytearray(path.read_bytes())
    content[10] ^= 1
    path.write_bytes(content)
    name = f"{attempt.path.name}/{CELL}"
    assert broken(folder) == [CellCheck(name=name, changed=("outputs.parquet",))]


def test_a_missing_file_is_named(folder: RunFolder, attempt: AttemptFolder) -> None:
    (attempt.path / CELL / "metrics-after.txt").unlink()
    (attempt.path / CELL / "metrics-before.txt").write_text("")
    name = f"{attempt.path.name}/{CELL}"
    assert broken(folder) == [
        CellCheck(name=name, changed=("metrics-before.txt",), missing=("metrics-after.txt",))
    ]


def test_a_cell_without_its_digests_does_not_hold(
    folder: RunFolder, attempt: AttemptFolder
) -> None:
    path = attempt.path / CELL / "cell.json"
    facts = read_json(path)
    name = f"{attempt.path.name}/{CELL}"
    for text in ("{", "[]", '{"sha256": {}}'):
        path.write_text(text)
        assert broken(folder) == [CellCheck(name=name, changed=("cell.json",))]
    del facts["sha256"]
    write_json(path, facts)
    assert broken(folder) == [CellCheck(name=name, changed=("cell.json",))]
    path.unlink()
    assert broken(folder) == [CellCheck(name=name, missing=("cell.json",))]


def test_a_cell_of_a_complete_deployment_that_is_gone_is_missed(
    folder: RunFolder, attempt: AttemptFolder
) -> None:
    shutil.rmtree(attempt.path / CELL)
    assert broken(folder) == [CellCheck(name=f"{attempt.deployment}/{CELL}", missing=(FOLDER,))]


def test_what_an_interruption_left_is_told_and_breaks_nothing(
    folder: RunFolder, attempt: AttemptFolder
) -> None:
    (attempt.path / "deployment.json").unlink()
    (attempt.path / CELL).rename(attempt.path / f".{CELL}.partial")
    (folder.path / ".plan.json.partial").write_text("{")
    check = check_run(folder)
    assert check.holds
    assert len(check.cells) == 11
    assert check.open_attempts == (attempt.path.name,)
    assert check.leftovers == (".plan.json.partial", f"{attempt.path.name}/.{CELL}.partial")


@pytest.mark.parametrize("name", ["plan.json", "{attempt}/deployment.json"])
def test_a_record_that_cannot_be_read_does_not_hold(
    folder: RunFolder, attempt: AttemptFolder, name: str
) -> None:
    (folder.path / name.format(attempt=attempt.path.name)).write_text("{")
    check = check_run(folder)
    assert not check.holds
    assert name.rpartition("/")[2] in check.problem
    assert len(check.cells) == 12
    assert all(cell.holds for cell in check.cells)


def test_a_run_that_goes_on_is_told(folder: RunFolder) -> None:
    with opened_run(folder.path):
        assert check_run(folder).is_going_on


@pytest.mark.parametrize(
    "name", ["audit.json", "launch.log", "launch.json", "server_info.json", "capture-1.jsonl"]
)
def test_a_file_beside_the_cells_that_is_lost_or_changed_is_told(
    finished: FinishedRun, tmp_path: Path, name: str
) -> None:
    run = Path(shutil.copytree(finished.run, tmp_path / finished.run.name))
    (attempt,) = run.glob("b01-*-eagle-k3-a1")
    (attempt / name).write_text("something else")
    (changed,) = [check for check in check_run(RunFolder(run)).cells if not check.holds]
    assert (changed.name, changed.changed, changed.missing) == (attempt.name, (name,), ())
    (attempt / name).unlink()
    (lost,) = [check for check in check_run(RunFolder(run)).cells if not check.holds]
    assert (lost.changed, lost.missing) == ((), (name,))
