"""What commands say of raw runs: text for people, plain values for machines."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import attrs

from specbench.facts import JournalEntry
from specbench.inspection.digests import RunCheck
from specbench.inspection.state import DeploymentState, RunState
from specbench.progress import PHASES
from specbench.store.present import present

Facts = dict[str, Any]
CELL_COLUMNS = ("stratum", "sampling", "concurrency", "requests", "aborted")


def run_facts(state: RunState) -> Facts:
    """Give how far a run is as plain values."""
    return {
        "run": state.path.name,
        "path": str(state.path),
        "state": state.status,
        "problem": state.problem,
        "simulated": state.plan and state.plan.simulated,
        "rehearsal": state.plan and state.plan.rehearsal,
        "deployments": {"complete": state.complete, "planned": len(state.deployments)},
        "cells": {"whole": state.cells_done, "planned": state.cells_planned},
        "last_activity_unix_s": state.last_activity_unix_s,
    }


def status_facts(state: RunState) -> Facts:
    """Give how far each deployment of a run is as plain values, and the command that goes on."""
    return run_facts(state) | {
        "last_step": state.last and attrs.asdict(state.last),
        "spoiled_blocks": sorted(state.spoiled_blocks),
        "command": command(state),
        "planned": [
            attrs.asdict(item.plan)
            | {
                "status": item.status,
                "reason": item.reason,
                "cells_whole": item.done,
                "attempts": [attrs.asdict(attempt) for attempt in item.attempts],
            }
            for item in state.deployments
        ],
    }


def command(state: RunState) -> list[str] | None:
    """Give the command that goes on, or None where nothing is left or it is not known."""
    if state.plan is None or state.plan.spec is None or state.plan.rehearsal:
        return None
    if state.status not in ("interrupted", "incomplete"):
        return None
    blocks = state.asked_blocks
    return [
        *("specbench", "run", str(state.path)),
        *(() if blocks is None else ("--blocks", str(blocks))),
    ]


def runs_lines(states: Sequence[RunState]) -> Iterator[str]:
    """Say of every run how far it is."""
    yield _table([_run_row(state) for state in states])
    for state in states:
        if state.problem:
            yield f"{state.path.name}: {state.problem}"


def _run_row(state: RunState) -> Facts:
    return {
        "run": state.path.name,
        "state": state.status,
        "deployments": f"{state.complete}/{len(state.deployments)}",
        "cells": f"{state.cells_done}/{state.cells_planned}",
        "last activity": _instant(state.last_activity_unix_s),
        "kind": _marks(run_facts(state)) or ("unknown" if state.plan is None else "measured"),
    }


def status_lines(state: RunState) -> Iterator[str]:
    """Say how far each deployment of a run is, what it does now, and what goes on with it."""
    yield f"{state.path}: {state.status}  {_marks(run_facts(state))}".rstrip()
    if state.problem:
        yield state.problem
        return
    yield ""
    yield _table([_deployment_row(item) for item in state.deployments])
    yield ""
    yield (
        f"{state.complete} of {len(state.deployments)} deployments, "
        f"{state.cells_done} of {state.cells_planned} cells"
    )
    if state.spoiled_blocks:
        shown = ", ".join(map(str, sorted(state.spoiled_blocks)))
        yield f"block {shown} has no baseline: `run` leaves it and appends another"
    if state.last:
        word = "now" if state.is_going_on else "last"
        yield f"{word}: {_step(state.last)}, {_instant(state.last.unix_s)}"
    if goes_on := command(state):
        yield f"to go on: {shlex.join(goes_on)}"


def _deployment_row(item: DeploymentState) -> Facts:
    numbers = [attempt.name.rpartition("-a")[2] for attempt in item.attempts]
    told = [
        f"a{number} {attempt.status}"
        for number, attempt in zip(numbers, item.attempts, strict=True)
    ]
    return {
        "deployment": item.plan.name,
        "status": item.status,
        "cells": f"{len(item.done)}/{len(item.plan.cells)}",
        "attempts": ", ".join(told) or None,
        "reason": item.reason or None,
    }


def _step(entry: JournalEntry) -> str:
    where = " ".join(part for part in (entry.deployment, entry.cell) if part)
    if entry.state == "note":
        told = entry.detail.get("status") or entry.detail.get("closed") or "measured"
        return f"{where}: {told}"
    doing = PHASES.get(entry.phase, entry.phase)
    return f"{where}: {doing}" if entry.state == "start" else f"{where}: {doing} ended"


def check_lines(check: RunCheck) -> Iterator[str]:
    """Say of every cell whether it is as it was written, and what an interruption left."""
    yield f"{check.run}: going on" if check.is_going_on else check.run
    if check.problem:
        yield f"  {check.problem}"
    for cell in check.cells:
        wrong = [f"changed: {name}" for name in cell.changed]
        wrong += [f"missing: {name}" for name in cell.missing]
        yield f"  {cell.name:<44} {', '.join(wrong) or 'whole'}"
    for name in check.open_attempts:
        yield f"  {name:<44} not closed: it has no deployment.json"
    for name in check.leftovers:
        yield f"  {name:<44} left over: a draft"


def place_lines(facts: Facts) -> Iterator[str]:
    """Say what one deployment, or one cell of it, left."""
    names = (facts["run"], facts["attempt"], facts.get("cell"))
    yield f"{'/'.join(filter(None, names))}  {_marks(facts)}".rstrip()
    if "cell" in facts:
        yield from _section("numbers of the window", _named(facts["summary"] or {}))
        yield from _section("rows by status", _named(facts["rows"]))
        yield from _section("cell.json", _named(facts["facts"]))
        return
    yield _launched(facts)
    yield from _section("closing", _named(facts["closing"] or {"status": "not closed"}))
    yield from _section("what the server said of itself", facts["facts"])
    yield from _section("verdicts of the day", facts["verdicts"])
    cells = [
        {"cell": name} | {column: cell.get(column) for column in CELL_COLUMNS}
        for name, cell in facts["cells"].items()
    ]
    yield from _section("cells", cells)


def _launched(facts: Facts) -> str:
    if not facts["command"]:
        return "no server was started"
    environment = [f"{name}={shlex.quote(text)}" for name, text in facts["environment"].items()]
    return " ".join([*environment, shlex.join(facts["command"])])


def _section(title: str, rows: list[Facts]) -> Iterator[str]:
    yield ""
    yield title
    yield _table(rows)


def _named(facts: Mapping[str, Any]) -> list[Facts]:
    """Give facts as rows of name and value."""
    return [{"name": name, "value": _value(name, value)} for name, value in facts.items()]


def _value(name: str, value: Any) -> Any:
    if name.endswith("_unix_s") and value is not None:
        return _instant(value)
    return json.dumps(value) if isinstance(value, (dict, list)) else value


def _table(rows: list[Facts]) -> str:
    return present(rows, "table").rstrip("\n")


def _marks(facts: Facts) -> str:
    """Say what no number of a run is shown without."""
    return " ".join(word.upper() for word in ("simulated", "rehearsal") if facts[word])


def _instant(unix_s: float) -> str:
    """Give an instant in this machine's time."""
    return datetime.fromtimestamp(unix_s, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
