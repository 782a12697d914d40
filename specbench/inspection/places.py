"""What `RUN/DEPLOYMENT/CELL` names, and what the files there say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from specbench.artifacts import AttemptFolder, CellFolder, RunFolder, find_runs
from specbench.errors import StoreError
from specbench.inspection.state import last_activity_unix_s, ordered_attempts, read_plan
from specbench.judge.cells import summarise
from specbench.whole_files import read_json


@attrs.frozen(kw_only=True)
class Place:
    """One deployment's attempt, or one cell of it."""

    run: RunFolder
    attempt: AttemptFolder
    cell: CellFolder | None


def find_run(runs: Path, wanted: str | None) -> RunFolder:
    """Give a run by its folder, its name or the start of its name; without any the newest.

    Raises:
        StoreError: There is no such run, or several names begin so.
    """
    if wanted is not None and _is_run(Path(wanted)):
        return RunFolder(Path(wanted).resolve())
    known = find_runs(runs)
    if wanted is None:
        if not known:
            raise StoreError(f"there is no run in {runs}", "run an experiment, or name --runs")
        return max(known, key=last_activity_unix_s)
    exact = [run for run in known if run.path.name == wanted]
    found = exact or [run for run in known if run.path.name.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    said = "several runs begin with" if found else "there is no run"
    names = ", ".join(run.path.name for run in found or known) or "none"
    raise StoreError(f"{said} {wanted!r} in {runs}", f"known: {names}")


def find_place(runs: Path, text: str) -> Place:
    """Give what `RUN/DEPLOYMENT[/CELL]` names, RUN as in `find_run`.

    DEPLOYMENT may leave out the attempt: then it is the newest.

    Raises:
        StoreError: There is no such run, deployment or cell.
    """
    above, _, name = text.rstrip("/").rpartition("/")
    first, _, second = above.rpartition("/")
    # RUN may be a path: what lies above the name is a run, or a deployment in one.
    if above and (_is_run(Path(above)) or not first):
        run = find_run(runs, above)
        return Place(run=run, attempt=_attempt(run, name), cell=None)
    if not first:
        raise StoreError(f"{text!r} names no deployment", "write RUN/DEPLOYMENT[/CELL]")
    run = find_run(runs, first)
    attempt = _attempt(run, second)
    cells = attempt.cells()
    if name not in cells:
        known = ", ".join(cells) or "none"
        raise StoreError(f"{attempt.path.name} has no whole cell {name!r}", f"known: {known}")
    return Place(run=run, attempt=attempt, cell=cells[name])


def place_facts(place: Place) -> dict[str, Any]:
    """Give what is known of a place, with the run that it belongs to."""
    plan = read_plan(place.run)
    return {
        "run": place.run.path.name,
        "attempt": place.attempt.path.name,
        "simulated": plan.simulated,
        "rehearsal": plan.rehearsal,
        **(cell_facts(place.cell) if place.cell else attempt_facts(place.attempt)),
    }


def attempt_facts(attempt: AttemptFolder) -> dict[str, Any]:
    """Give what an attempt left: its command, audit, verdicts of the day, closing and cells.

    What it did not come to is None, or empty.
    """
    launch = _optional(attempt.path / "launch.json")
    audit = _optional(attempt.path / "audit.json")
    return {
        "command": launch.get("argv"),
        "environment": launch.get("environment", {}),
        "facts": audit.get("audit", {}).get("facts", []),
        "verdicts": audit.get("verdicts", []),
        "closing": attempt.closing(),
        "cells": {name: cell.facts() for name, cell in attempt.cells().items()},
    }


def cell_facts(cell: CellFolder) -> dict[str, Any]:
    """Give what cell.json says, the number of rows by status, and the numbers of the window.

    Raises:
        StoreError: The rows cannot be read.
    """
    facts = cell.facts()
    try:
        rows = cell.rows()
    except (OSError, ValueError) as error:
        hint = "`specbench verify` tells which files changed"
        raise StoreError(f"the rows of {cell.path} cannot be read: {error}", hint) from error
    return {
        "cell": cell.path.name,
        "facts": facts,
        "rows": dict(Counter(row.status for row in rows)),
        "summary": attrs.asdict(summarise(rows, facts["concurrency"])) if rows else None,
    }


def _is_run(path: Path) -> bool:
    return (path / "plan.json").is_file()


def _attempt(run: RunFolder, wanted: str) -> AttemptFolder:
    """Give an attempt by its name, or the newest at a deployment."""
    known = run.attempts()
    named = [attempt for attempt in known if attempt.path.name == wanted]
    found = named or ordered_attempts(run, wanted)
    if not found:
        names = ", ".join(attempt.path.name for attempt in known) or "none"
        raise StoreError(f"{run.path.name} has no deployment {wanted!r}", f"known: {names}")
    return found[-1]


def _optional(path: Path) -> Mapping[str, Any]:
    return read_json(path) if path.exists() else {}
