"""Whether what a log tells fell inside a measured window or between windows. Pure.

Stamps have neither year nor time zone. Both follow from what is known anyway: the whole log lies
between the start of its deployment and its end, and time zones differ by quarters of an hour. Where
several fit, as in a log that is far shorter than its deployment, nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from specbench.log_facts import Fell, LogTimes

QUARTER_S = 900
"""Seconds by which time zones differ."""
QUARTERS = range(-14 * 4, 14 * 4 + 1)
STAMP_S = 1.0
"""Seconds that one stamp stands for: what it tells happened in the second that begins with it."""


class Span(NamedTuple):
    """A stretch of time between two instants, in seconds of the Unix clock."""

    start_s: float
    end_s: float


def fallen(
    times: LogTimes, deployment: Span, windows: Mapping[str, Span] | None
) -> dict[str, Fell]:
    """Give where each timed line fell.

    `windows` are the measured ones by cell; None when they are not all known.
    """
    clock = _clock(times, deployment)
    found: dict[str, Fell] = {}
    for line, stamp in times.timed:
        here = Fell(unknown=True)
        if clock is not None and windows is not None and stamp:
            here = _placed(_at_s(stamp, *clock), windows)
        found[line] = _both(found.get(line, Fell()), here)
    return found


def _placed(at_s: float, windows: Mapping[str, Span]) -> Fell:
    inside, perhaps = [], []
    for cell, window in windows.items():
        if window.start_s <= at_s and at_s + STAMP_S <= window.end_s:
            inside.append(cell)
        elif at_s < window.end_s and window.start_s < at_s + STAMP_S:
            perhaps.append(cell)
    return Fell(inside=tuple(inside), perhaps=tuple(perhaps))


def _both(one: Fell, other: Fell) -> Fell:
    return Fell(
        inside=tuple(dict.fromkeys(one.inside + other.inside)),
        perhaps=tuple(dict.fromkeys(one.perhaps + other.perhaps)),
        unknown=one.unknown or other.unknown,
    )


def _clock(times: LogTimes, deployment: Span) -> tuple[int, int] | None:
    """Give the year of a log's stamps and their seconds ahead of UTC, when one of each fits."""
    # Stamps are sorted as texts. A log that goes on in a new year, or whose clock was put back,
    # holds stamps of two kinds.
    if not times.first or times.last < times.first:
        return None
    fitting = list(_fitting(times, deployment))
    return fitting[0] if len(fitting) == 1 else None


def _fitting(times: LogTimes, deployment: Span) -> Iterator[tuple[int, int]]:
    launched = datetime.fromtimestamp(deployment.start_s, UTC).year
    for year in (launched - 1, launched, launched + 1):
        for quarter in QUARTERS:
            ahead_s = quarter * QUARTER_S
            try:
                first_s = _at_s(times.first, year, ahead_s)
                last_s = _at_s(times.last, year, ahead_s)
            except ValueError:
                # The 29th of February, in a year that has none.
                break
            if deployment.start_s < first_s + STAMP_S and last_s <= deployment.end_s:
                yield year, ahead_s


def _at_s(stamp: str, year: int, ahead_s: int) -> float:
    read = datetime.strptime(f"{year}-{stamp}", "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    return read.timestamp() - ahead_s
