"""The gain of an arm on a workload in each block: declared metric, declared loads. Pure.

A workload is a stratum under one sampling. A gain is oriented: above 1 the arm is better, for times
too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import attrs

from specbench.analysis.effects import Paired, Role, geometric_mean
from specbench.experiment.decision import DecisionMetric

Workload = tuple[str, str]
"""Stratum and sampling."""


@attrs.frozen(kw_only=True)
class WorkloadGains:
    """What every block says of an arm on one workload."""

    arm: str
    role: Role
    stratum: str
    sampling: str
    metric: DecisionMetric
    loads: tuple[float, ...]
    gains: Mapping[int, float]
    """By block: the geometric mean over the loads."""
    weak: bool
    """A percentile behind it is weak in some block."""
    missing: tuple[str, ...]
    """Load points and blocks that give no ratio, and why."""

    @property
    def workload(self) -> Workload:
        """Stratum and sampling."""
        return self.stratum, self.sampling


def workload_gains(
    pairs: Iterable[Paired], metric: DecisionMetric, loads: Sequence[float]
) -> tuple[WorkloadGains, ...]:
    """Give the gains of every arm and workload. A block that lacks one of the loads gives none."""
    found: dict[tuple[str, Role, str, str], list[Paired]] = defaultdict(list)
    for pair in pairs:
        if pair.metric == metric:
            found[pair.arm, pair.role, pair.stratum, pair.sampling].append(pair)
    return tuple(_gains(items, metric, loads) for items in found.values())


def gain(metric: DecisionMetric, ratio: float) -> float:
    """Turn a ratio arm / baseline so that above 1 is better."""
    return ratio if metric == "output_throughput" else 1 / ratio


def _gains(
    pairs: Sequence[Paired], metric: DecisionMetric, loads: Sequence[float]
) -> WorkloadGains:
    head = pairs[0]
    by_load = {pair.load: pair for pair in pairs if pair.load in loads}
    blocks: dict[int, list[float]] = defaultdict(list)
    for pair in by_load.values():
        for repeat in pair.repeats:
            blocks[repeat.block].append(gain(metric, repeat.ratio))
    missing = [f"load {load:g}: not measured" for load in loads if load not in by_load]
    missing += [f"load {load:g}: {said}" for load, pair in by_load.items() for said in pair.missing]
    return WorkloadGains(
        arm=head.arm,
        role=head.role,
        stratum=head.stratum,
        sampling=head.sampling,
        metric=metric,
        loads=tuple(loads),
        gains={
            block: geometric_mean(values)
            for block, values in sorted(blocks.items())
            if len(values) == len(loads)
        },
        weak=any(repeat.weak for pair in by_load.values() for repeat in pair.repeats),
        missing=tuple(missing),
    )
