"""The decision interval: Student t over blocks of log ratios. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import attrs

LEAST_BLOCKS = 3
CLAIM_BLOCKS = 5
LEVEL = 0.95


@attrs.frozen
class Interval:
    """Bounds of a ratio."""

    low: float
    high: float


def t_interval(logs: Sequence[float], level: float = LEVEL) -> tuple[Interval | None, str]:
    """Give the t interval of a geometric mean and what must be said of it.

    There is none under 3 blocks; with 3 and 4 it is marked wide.
    """
    count = len(logs)
    if count < LEAST_BLOCKS:
        blocks = "1 block" if count == 1 else f"{count} blocks"
        return None, f"{blocks}: no interval under {LEAST_BLOCKS}"
    # What scipy.stats.t.ppf gives, without the 0.7 s that scipy.stats takes to import.
    from scipy.special import stdtrit

    mean = statistics.fmean(logs)
    half = float(stdtrit(count - 1, (1 + level) / 2)) * statistics.stdev(logs) / math.sqrt(count)
    note = f"{count} blocks: wide; a claim needs {CLAIM_BLOCKS}" if count < CLAIM_BLOCKS else ""
    return Interval(math.exp(mean - half), math.exp(mean + half)), note
