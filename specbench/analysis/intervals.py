"""The decision interval and its p-value: Student t over blocks of log ratios. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from functools import cache

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
    mean = statistics.fmean(logs)
    half = _quantile((1 + level) / 2, count - 1) * _standard_error(logs)
    note = f"{count} blocks: wide; a claim needs {CLAIM_BLOCKS}" if count < CLAIM_BLOCKS else ""
    return Interval(math.exp(mean - half), math.exp(mean + half)), note


def mean_interval(values: Sequence[float], level: float = LEVEL) -> Interval | None:
    """Give the t interval of an arithmetic mean over blocks; None under 3 blocks.

    For what is no ratio, such as lengths, which may lie below 0.
    """
    count = len(values)
    if count < LEAST_BLOCKS:
        return None
    mean = statistics.fmean(values)
    half = _quantile((1 + level) / 2, count - 1) * _standard_error(values)
    return Interval(mean - half, mean + half)


def lower_bound(logs: Sequence[float], level: float) -> float | None:
    """Give the one-sided lower t bound of a geometric mean; None under 3 blocks."""
    count = len(logs)
    if count < LEAST_BLOCKS:
        return None
    mean = statistics.fmean(logs)
    return math.exp(mean - _quantile(level, count - 1) * _standard_error(logs))


def p_value(logs: Sequence[float]) -> float | None:
    """Give the two-sided p-value of Student's t that the geometric mean is 1; None under 3 blocks.

    It is below 0.05 exactly where the 95% t interval excludes 1.
    """
    count = len(logs)
    if count < LEAST_BLOCKS:
        return None
    mean, error = statistics.fmean(logs), _standard_error(logs)
    if error == 0:
        # Equal ratios, as virtual time gives them.
        return 1.0 if mean == 0 else 0.0
    from scipy.special import stdtr  # scipy is slow to import

    return 2 * float(stdtr(count - 1, -abs(mean) / error))


def spread(values: Sequence[float]) -> float | None:
    """Give (largest - smallest) / mean of repeats; None for fewer than 2."""
    if len(values) < 2:  # noqa: PLR2004 - one value has no spread
        return None
    return (max(values) - min(values)) / statistics.fmean(values)


def _standard_error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values))


@cache
def _quantile(level: float, freedom: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, level))
