"""Whether the evidence is as it was written: every digest, computed again.

cell.json holds the digests of a cell's files, deployment.json those of the files beside the cells.
The two themselves carry none, and neither do the files of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import attrs
import cattrs

from specbench.artifacts import AttemptFolder, RunFolder
from specbench.errors import StoreError
from specbench.inspection.state import is_going_on, read_plan
from specbench.whole_files import file_digest, read_json

FOLDER = "the whole folder"


@attrs.frozen(kw_only=True)
class CellCheck:
    """One cell, or the files of a deployment beside its cells, against their digests."""

    name: str
    """Attempt and cell; the attempt alone for the files beside the cells."""
    changed: tuple[str, ...] = ()
    """Files whose digest is another one than was written down."""
    missing: tuple[str, ...] = ()
    """Files that are not there."""

    @property
    def holds(self) -> bool:
        """Whether every file is there and as it was written."""
        return not self.changed and not self.missing


@attrs.frozen(kw_only=True)
class RunCheck:
    """A run against its digests, and what an interruption left behind."""

    run: str
    problem: str
    """Why the run cannot be checked whole."""
    is_going_on: bool
    cells: tuple[CellCheck, ...]
    open_attempts: tuple[str, ...]
    """Attempts without deployment.json: going on, or interrupted and not gone on with yet."""
    leftovers: tuple[str, ...]
    """Drafts that were never renamed. No evidence is lost by them: they were not whole."""

    @property
    def holds(self) -> bool:
        """Whether all evidence is whole. What an interruption left behind takes nothing from it."""
        return not self.problem and all(cell.holds for cell in self.cells)


def check_run(folder: RunFolder) -> RunCheck:
    """Compute every digest of a run again."""
    attempts = folder.attempts()
    cells = [check for attempt in attempts for check in (*_beside(attempt), *_cells(attempt))]
    problem = ""
    try:
        cells += _lost(folder, attempts)
    except StoreError as error:
        problem = error.message
    return RunCheck(
        run=folder.path.name,
        problem=problem,
        is_going_on=is_going_on(folder),
        cells=tuple(cells),
        open_attempts=tuple(item.path.name for item in attempts if _is_open(item)),
        leftovers=tuple(_leftovers(folder.path)),
    )


def _cells(attempt: AttemptFolder) -> Iterator[CellCheck]:
    for path in _cell_folders(attempt):
        name = f"{attempt.path.name}/{path.name}"
        if not (path / "cell.json").is_file():
            yield CellCheck(name=name, missing=("cell.json",))
            continue
        digests = _digests(path / "cell.json")
        if not digests:
            yield CellCheck(name=name, changed=("cell.json",))
            continue
        yield _compared(name, path, digests)


def _beside(attempt: AttemptFolder) -> Iterator[CellCheck]:
    """Give what is wrong with the files beside the cells, once the attempt is closed."""
    digests = _digests(attempt.path / "deployment.json") if not _is_open(attempt) else {}
    check = _compared(attempt.path.name, attempt.path, digests)
    if not check.holds:
        yield check


def _compared(name: str, path: Path, digests: dict[str, str]) -> CellCheck:
    missing = tuple(file for file in digests if not (path / file).is_file())
    changed = tuple(
        file
        for file, digest in digests.items()
        if file not in missing and file_digest(path / file) != digest
    )
    return CellCheck(name=name, changed=changed, missing=missing)


def _digests(path: Path) -> dict[str, str]:
    """Give the digests that a file holds; none where it is damaged."""
    with suppress(StoreError, KeyError, TypeError):
        return cattrs.structure(read_json(path)["sha256"], dict[str, str])
    return {}


def _lost(folder: RunFolder, attempts: Sequence[AttemptFolder]) -> Iterator[CellCheck]:
    """Give the cells of complete deployments whose folder is not there."""
    for planned in read_plan(folder).deployments:
        own = [attempt for attempt in attempts if attempt.deployment == planned.name]
        if not any((attempt.closing() or {}).get("status") == "complete" for attempt in own):
            continue
        there = {path.name for attempt in own for path in _cell_folders(attempt)}
        for cell in planned.cells:
            if cell not in there:
                yield CellCheck(name=f"{planned.name}/{cell}", missing=(FOLDER,))


def _cell_folders(attempt: AttemptFolder) -> list[Path]:
    """Give every folder of an attempt that is no draft, whether it has a cell.json or not."""
    return sorted(
        path for path in attempt.path.iterdir() if path.is_dir() and not path.name.startswith(".")
    )


def _is_open(attempt: AttemptFolder) -> bool:
    return not (attempt.path / "deployment.json").exists()


def _leftovers(run: Path) -> Iterator[str]:
    for pattern in (".*.partial", "*/.*.partial"):
        for path in sorted(run.glob(pattern)):
            yield path.relative_to(run).as_posix()
