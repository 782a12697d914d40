"""Arrival traces: a file of instants, in seconds from the start, one a line, in order."""

from __future__ import annotations

import math
from pathlib import Path

from specbench.errors import ExperimentError, Problem


def read_trace(path: Path) -> tuple[float, ...]:
    """Give the instants of a trace.

    Raises:
        ExperimentError: The file cannot be read, or a line is no later instant.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise ExperimentError([Problem(f"trace {path} cannot be read: {error}")]) from error
    instants: list[float] = []
    problems = []
    for number, line in enumerate(lines, start=1):
        instant = _instant(line)
        if instant is None or (instants and instant < instants[-1]):
            said = f"{line[:40]!r} is no instant at or after the one before"
            hint = "write seconds from the start, such as 12.5"
            problems.append(Problem(said, hint, f"{path}:{number}"))
            break
        instants.append(instant)
    if not problems and (len(instants) < 2 or not instants[-1]):  # noqa: PLR2004 - a rate needs two
        problems.append(Problem(f"trace {path} has {len(instants)} arrivals", "two are needed"))
    if problems:
        raise ExperimentError(problems)
    return tuple(instants)


def _instant(line: str) -> float | None:
    try:
        instant = float(line)
    except ValueError:
        return None
    return instant if math.isfinite(instant) and instant >= 0 else None
