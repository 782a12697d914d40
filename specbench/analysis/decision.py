"""What may be claimed of an arm on a workload, and whether a regression is there. Pure.

The rules: docs/statistics.md. Their error rates: `python benchmarks/validity.py`.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import attrs

from specbench.analysis.effects import geometric_mean
from specbench.analysis.holm import holm
from specbench.analysis.intervals import (
    CLAIM_BLOCKS,
    LEVEL,
    Interval,
    lower_bound,
    p_value,
    t_interval,
)
from specbench.analysis.noise_floor import NoiseFloor
from specbench.analysis.workload_gains import Workload, WorkloadGains
from specbench.experiment.decision import Decision

REGRESSION_LEVEL = 0.99
"""Of the one-sided bound that shows a regression absent: with any noise, a loss beyond the limit is
shown absent in at most 1%."""
Gain = Literal["claimed", "candidate", "withheld", "not_shown"]
Regression = Literal["shown_absent", "present", "unresolved"]


@attrs.frozen(kw_only=True)
class WorkloadDecision:
    """What is ruled of one arm on one workload."""

    gains: WorkloadGains
    estimate: float | None
    """Geometric mean over blocks of the gain; above 1 the arm is better."""
    interval: Interval | None
    """The decision interval, of this comparison alone."""
    interval_note: str
    p_value: float | None
    p_holm: float | None
    comparisons: int
    """Arms x workloads that Holm went over."""
    gain: Gain
    """claimed; candidate: screening passed the same rule; withheld: passed, and something bars it;
    not_shown."""
    reasons: tuple[str, ...]
    """Why no gain is claimed."""
    regression: Regression
    regression_low: float | None
    """Lower one-sided 99% bound."""
    within_best: bool | None
    """Whether it lies near the best arm of its workload."""


def decisions(
    found: Sequence[WorkloadGains],
    floors: Iterable[NoiseFloor],
    declared: Decision,
    *,
    stage: Literal["screening", "confirmation"],
    barred: Mapping[str, Sequence[str]],
) -> tuple[WorkloadDecision, ...]:
    """Rule on every arm and workload.

    `barred` gives, by arm, what keeps it from every claim: a blocked correctness verdict, synthetic
    or lossy acceptance, a node that no baseline ran on.
    """
    arms = [item for item in found if item.role == "arm"]
    voided = [
        f"A/A on {floor.gains.stratum}: {floor.reason}"
        for floor in floors
        if floor.outcome != "pass"
    ]
    logs = [[math.log(value) for value in item.gains.values()] for item in arms]
    p_values = [p_value(values) for values in logs]
    best = _best(arms, barred)
    return tuple(
        _ruled(
            item,
            values,
            (p, p_holm, len(arms)),
            declared,
            stage=stage,
            bars=(*barred.get(item.arm, ()), *voided),
            best=best.get(item.workload),
        )
        for item, values, p, p_holm in zip(arms, logs, p_values, holm(p_values), strict=True)
    )


def _best(
    arms: Iterable[WorkloadGains], barred: Mapping[str, Sequence[str]]
) -> Mapping[Workload, float]:
    best: dict[Workload, float] = defaultdict(float)
    for item in arms:
        if item.gains and not barred.get(item.arm):
            estimate = geometric_mean(list(item.gains.values()))
            best[item.workload] = max(best[item.workload], estimate)
    return best


def _ruled(
    item: WorkloadGains,
    logs: Sequence[float],
    tested: tuple[float | None, float | None, int],
    declared: Decision,
    *,
    stage: Literal["screening", "confirmation"],
    bars: Sequence[str],
    best: float | None,
) -> WorkloadDecision:
    p, p_holm, comparisons = tested
    estimate = geometric_mean(list(item.gains.values())) if item.gains else None
    interval, note = t_interval(logs)
    lacking = tuple(_lacking(estimate, len(logs), p_holm, comparisons, declared))
    low = lower_bound(logs, REGRESSION_LEVEL)
    gain: Gain = "not_shown"
    if not lacking:
        gain = "withheld" if bars else "claimed" if stage == "confirmation" else "candidate"
    screening = ("a screening: to be confirmed on deployments of its own",)
    return WorkloadDecision(
        gains=item,
        estimate=estimate,
        interval=interval,
        interval_note=note,
        p_value=p,
        p_holm=p_holm,
        comparisons=comparisons,
        gain=gain,
        reasons=(*lacking, *bars, *(screening if gain == "candidate" else ())),
        regression=_regression(estimate, low, len(logs), declared.regression, barred=bool(bars)),
        regression_low=low,
        within_best=(
            None if estimate is None or not best else estimate >= best * (1 - declared.within_best)
        ),
    )


def _lacking(
    estimate: float | None,
    blocks: int,
    p_holm: float | None,
    comparisons: int,
    declared: Decision,
) -> Iterable[str]:
    """Give what a claimed gain needs and is not there."""
    if blocks < CLAIM_BLOCKS:
        shown = "1 block" if blocks == 1 else f"{blocks} blocks"
        yield f"{shown}: a claim needs {CLAIM_BLOCKS}"
    if estimate is None:
        return
    if estimate <= 1:
        yield f"the estimate {estimate:.4g} is no gain"
        return
    if p_holm is not None and p_holm >= 1 - LEVEL:
        over = f" over {comparisons} comparisons" if comparisons > 1 else ""
        yield f"the interval reaches 1 after Holm{over} (p = {p_holm:.2g})"
    if estimate <= 1 + declared.materiality:
        yield f"the estimate {estimate:.4g} is not above {1 + declared.materiality:g} (materiality)"


def _regression(
    estimate: float | None, low: float | None, blocks: int, limit: float, *, barred: bool
) -> Regression:
    if estimate is not None and estimate < 1 - limit:
        return "present"
    if low is not None and low > 1 - limit and blocks >= CLAIM_BLOCKS and not barred:
        return "shown_absent"
    return "unresolved"
