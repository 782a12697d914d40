"""How far a run is: its plan against the attempts in its folder."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import attrs
import cattrs

from specbench.artifacts import AttemptFolder, RunFolder
from specbench.errors import StoreError
from specbench.facts import JournalEntry
from specbench.whole_files import read_json

RunStatus = Literal["complete", "going on", "interrupted", "incomplete", "unreadable"]
TAIL_BYTES = 1 << 16
"""The end of a journal in which its newest line is looked for."""


@attrs.frozen(kw_only=True)
class AttemptState:
    """One attempt at a deployment."""

    name: str
    status: str
    """Of deployment.json; `going on` or `interrupted` while there is none."""
    reason: str
    cells: tuple[str, ...]
    """Cells that were measured to their end."""


@attrs.frozen(kw_only=True)
class PlannedDeployment:
    """A deployment as plan.json names it."""

    name: str
    block: int
    arm: str
    cells: tuple[str, ...]
    """In the order of its block."""


@attrs.frozen(kw_only=True)
class DeploymentState:
    """A planned deployment and how far it is."""

    plan: PlannedDeployment
    attempts: tuple[AttemptState, ...]
    """In their order."""

    @property
    def status(self) -> str:
        """That of the attempt that counts: a complete one, else the newest."""
        told = [attempt.status for attempt in self.attempts]
        return "complete" if "complete" in told else (told or ["not begun"])[-1]

    @property
    def reason(self) -> str:
        """Why it is not complete, as far as its newest attempt says so."""
        return self.attempts[-1].reason if self.attempts and self.status != "complete" else ""

    @property
    def done(self) -> tuple[str, ...]:
        """Planned cells that some attempt measured."""
        measured = {name for attempt in self.attempts for name in attempt.cells}
        return tuple(name for name in self.plan.cells if name in measured)


@attrs.frozen(kw_only=True)
class PlannedRun:
    """What plan.json says, as far as it is needed to tell how far a run is."""

    experiment: dict[str, Any]
    simulated: bool
    arms: dict[str, dict[str, Any]]
    deployments: tuple[PlannedDeployment, ...]
    rehearsal: bool = False
    spec: str | None = None
    """The experiment's file as it was run last; older plans do not name it."""

    @property
    def blocks(self) -> int:
        """The number of its blocks."""
        return max((deployment.block for deployment in self.deployments), default=0)


@attrs.frozen(kw_only=True)
class RunState:
    """A run folder and how far its plan is carried out."""

    path: Path
    plan: PlannedRun | None
    """None where it cannot be read."""
    problem: str
    """Why the folder cannot be read."""
    deployments: tuple[DeploymentState, ...]
    is_going_on: bool
    """A specbench holds its lock."""
    last: JournalEntry | None
    """The newest step of the walk."""
    last_activity_unix_s: float

    @property
    def status(self) -> RunStatus:
        """Interrupted: the walk did not reach its end. Incomplete: it did, and something failed."""
        if self.problem:
            return "unreadable"
        if self.is_going_on:
            return "going on"
        spoiled = self.spoiled_blocks
        told = {item.status for item in self.deployments if item.plan.block not in spoiled}
        if told & {"not begun", "interrupted"}:
            return "interrupted"
        return "incomplete" if spoiled or told - {"complete"} else "complete"

    @property
    def spoiled_blocks(self) -> frozenset[int]:
        """Blocks whose baseline failed in every attempt: `run` leaves them and appends others."""
        arms = self.plan.arms if self.plan else {}
        return frozenset(
            item.plan.block
            for item in self.deployments
            if arms[item.plan.arm].get("role") == "baseline"
            and item.attempts
            and all(attempt.status in ("failed", "rejected") for attempt in item.attempts)
        )

    @property
    def asked_blocks(self) -> int | None:
        """What `--blocks` has to say for this plan; None where the document says it.

        A plan has a block more for each block that was spoiled before it was made.
        """
        if self.plan is None:
            return None
        planned, least = self.plan.blocks, self.plan.blocks - len(self.spoiled_blocks)
        written = self.plan.experiment["design"]["blocks"]
        return None if least <= written <= planned else least

    @property
    def complete(self) -> int:
        """Complete deployments."""
        return sum(item.status == "complete" for item in self.deployments)

    @property
    def cells_done(self) -> int:
        """Planned cells that were measured."""
        return sum(len(item.done) for item in self.deployments)

    @property
    def cells_planned(self) -> int:
        """Cells of the whole plan."""
        return sum(len(item.plan.cells) for item in self.deployments)


def run_state(folder: RunFolder) -> RunState:
    """Give how far a run is.

    A folder that cannot be read has a state that says why, so that it does not hide the others.
    """
    going_on = is_going_on(folder)
    plan, problem = None, ""
    deployments: tuple[DeploymentState, ...] = ()
    try:
        plan = read_plan(folder)
        deployments = tuple(_deployments(folder, plan, going_on=going_on))
    except StoreError as error:
        problem = error.message
    return RunState(
        path=folder.path,
        plan=plan,
        problem=problem,
        deployments=deployments,
        is_going_on=going_on,
        last=last_entry(folder),
        last_activity_unix_s=last_activity_unix_s(folder),
    )


def read_plan(folder: RunFolder) -> PlannedRun:
    """Read plan.json.

    Raises:
        StoreError: It is missing, no whole JSON, or of another layout.
    """
    path = folder.path / "plan.json"
    try:
        return cattrs.structure(read_json(path), PlannedRun)
    except cattrs.BaseValidationError as error:
        raise StoreError(f"{path} is no plan that this specbench knows") from error


def is_going_on(folder: RunFolder) -> bool:
    """Tell whether a specbench holds the lock of a run's journal."""
    with suppress(OSError), (folder.path / "journal.jsonl").open("rb") as journal:
        # Shared, and let go at once: two that look do not see each other as a run.
        try:
            fcntl.flock(journal, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def last_entry(folder: RunFolder) -> JournalEntry | None:
    """Give the newest whole line of a run's journal, without reading all of it."""
    with suppress(FileNotFoundError), (folder.path / "journal.jsonl").open("rb") as journal:
        journal.seek(max(journal.seek(0, os.SEEK_END) - TAIL_BYTES, 0))
        for line in reversed(journal.read().splitlines()):
            with suppress(ValueError, cattrs.BaseValidationError):
                return cattrs.structure(json.loads(line), JournalEntry)
    return None


def last_activity_unix_s(folder: RunFolder) -> float:
    """Give when a run last wrote a step, or its plan when it wrote none."""
    entry = last_entry(folder)
    return entry.unix_s if entry else (folder.path / "plan.json").stat().st_mtime


def ordered_attempts(folder: RunFolder, deployment: str) -> list[AttemptFolder]:
    """Give the attempts at a deployment by their number."""
    return sorted(folder.attempts(deployment), key=lambda attempt: attempt.attempt)


def _deployments(
    folder: RunFolder, plan: PlannedRun, *, going_on: bool
) -> Iterator[DeploymentState]:
    for planned in plan.deployments:
        attempts = ordered_attempts(folder, planned.name)
        states = tuple(_attempt(attempt, going_on=going_on) for attempt in attempts)
        yield DeploymentState(plan=planned, attempts=states)


def _attempt(attempt: AttemptFolder, *, going_on: bool) -> AttemptState:
    closing = attempt.closing() or {"status": "going on" if going_on else "interrupted"}
    cells = attempt.cells()
    return AttemptState(
        name=attempt.path.name,
        status=closing["status"],
        reason=closing.get("reason", ""),
        cells=tuple(name for name, cell in cells.items() if not cell.facts().get("aborted")),
    )
