"""A/A validity: whether a run finds an effect where there is none. Pure.

The noise floor is the baseline launched twice a block. It checks the run and is never added to an
interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal

import attrs

from specbench.analysis.effects import geometric_mean
from specbench.analysis.holm import holm
from specbench.analysis.intervals import LEVEL, Interval, p_value, spread, t_interval
from specbench.analysis.workload_gains import WorkloadGains


@attrs.frozen(kw_only=True)
class NoiseFloor:
    """The baseline against its own repeat on one workload."""

    gains: WorkloadGains
    estimate: float | None
    interval: Interval | None
    p_holm: float | None
    """Two-sided, adjusted over workloads."""
    spread: float | None
    """Largest |a - b| / mean of the two baselines over blocks."""
    spread_bound: float
    outcome: Literal["pass", "fail", "undecided"]
    reason: str


def noise_floors(found: Iterable[WorkloadGains], spread_bound: float) -> tuple[NoiseFloor, ...]:
    """Judge the noise floor of every workload; nothing where the design has none.

    Holm goes over workloads, so that a sound run is voided by chance in at most 5%, however many
    workloads it has.
    """
    floors = [item for item in found if item.role == "noise_floor"]
    logs = [[math.log(value) for value in item.gains.values()] for item in floors]
    adjusted = holm([p_value(values) for values in logs])
    return tuple(
        _judged(item, values, p, spread_bound)
        for item, values, p in zip(floors, logs, adjusted, strict=True)
    )


def _judged(
    item: WorkloadGains, logs: list[float], p_holm: float | None, bound: float
) -> NoiseFloor:
    ratios = list(item.gains.values())
    # Of a ratio r and 1 the spread is that of the two baselines themselves.
    widest = max((spread([ratio, 1.0]) or 0.0 for ratio in ratios), default=None)
    interval, note = t_interval(logs)
    outcome: Literal["pass", "fail", "undecided"] = "pass"
    reason = ""
    if widest is not None and widest > bound:
        outcome = "fail"
        reason = f"two baselines of a block differ by {widest:.1%}, more than {bound:.1%}"
    elif p_holm is None:
        outcome, reason = "undecided", note
    elif p_holm < 1 - LEVEL:
        outcome = "fail"
        reason = f"equal arms differ: its interval excludes 1 (p = {p_holm:.2g} after Holm)"
    return NoiseFloor(
        gains=item,
        estimate=geometric_mean(ratios) if ratios else None,
        interval=interval,
        p_holm=p_holm,
        spread=widest,
        spread_bound=bound,
        outcome=outcome,
        reason=reason,
    )
