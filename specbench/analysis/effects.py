"""Effects: paired log ratios arm / baseline inside blocks, summarised over blocks. Pure.

A deployment is the independent unit; requests in it are not. The baseline of a block is the
geometric mean of its plain baselines.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

import attrs
import numpy as np

from specbench.analysis.bootstrap import Bootstrap, bootstrap
from specbench.analysis.intervals import Interval, spread, t_interval
from specbench.experiment.decision import DecisionMetric

Metric = DecisionMetric | Literal["window_s_per_request"]
"""The last is window seconds per successful request, which traffic mixes are made of."""
DECISION_METRICS: tuple[DecisionMetric, ...] = get_args(DecisionMetric)
METRICS: tuple[Metric, ...] = (*DECISION_METRICS, "window_s_per_request")
Role = Literal["baseline", "noise_floor", "equalised", "arm"]


@attrs.frozen(kw_only=True)
class Point:
    """One deployment's value of one metric in one cell."""

    block: int
    arm: str
    role: Role
    stratum: str
    sampling: str
    concurrency: int | None
    metric: Metric
    value: float | None
    """None when the cell was rejected or the number withheld."""
    excluded: str = ""
    """Why the value may not be used."""
    weak: bool = False
    """Too few successes stand behind a percentile for it to be firm."""
    arrival_rate: float | None = None
    """The load point of an open load, which has no concurrency."""


@attrs.frozen(kw_only=True)
class Repeat:
    """The ratio of one block."""

    block: int
    baseline: float
    """Geometric mean of the block's plain baselines."""
    arm: float
    ratio: float
    deployments: int = 2
    """The arm's and the plain baselines behind it."""
    weak: bool = False


@attrs.frozen(kw_only=True)
class Paired:
    """An arm against the baseline in one cell: the ratio of every block."""

    arm: str
    role: Role
    stratum: str
    sampling: str
    concurrency: int | None
    arrival_rate: float | None
    metric: Metric
    repeats: tuple[Repeat, ...]
    missing: tuple[str, ...]
    """Blocks that give no ratio, and why."""

    @property
    def load(self) -> float | None:
        """The load point: a concurrency, or the rate of an open load."""
        return self.concurrency if self.concurrency is not None else self.arrival_rate


@attrs.frozen(kw_only=True)
class Effect(Paired):
    """What the ratios of all blocks come to."""

    estimate: float | None
    """Geometric mean of the ratios."""
    median: float | None
    spread: float | None
    """(Largest - smallest) / mean of the ratios."""
    interval: Interval | None
    interval_note: str
    """Why there is no interval, or that it is wide."""
    bootstrap: Bootstrap | None
    deployments: int
    weak: bool
    """A percentile behind it is weak in some block."""


def effects(points: Iterable[Point]) -> tuple[Effect, ...]:
    """Give the effect of every arm in every cell and metric, in the order of the points."""
    return tuple(map(summarised, paired(points)))


def paired(points: Iterable[Point]) -> tuple[Paired, ...]:
    """Give the ratios of every arm in every cell and metric, in the order of the points.

    The A/A ratio of the noise floor pairs the baseline's repeat with the baseline itself.
    """
    cells: dict[tuple[object, ...], list[Point]] = defaultdict(list)
    for point in points:
        load = (point.concurrency, point.arrival_rate)
        cells[point.stratum, point.sampling, load, point.metric].append(point)
    return tuple(
        _paired(arm, role, found)
        for found in cells.values()
        for arm, role in dict.fromkeys((p.arm, p.role) for p in found)
        if role != "baseline"
    )


def summarised(pair: Paired) -> Effect:
    """Give the effect that the ratios of blocks come to."""
    ratios = [repeat.ratio for repeat in pair.repeats]
    logs = [math.log(ratio) for ratio in ratios]
    interval, note = t_interval(logs)
    return Effect(
        **{field.name: getattr(pair, field.name) for field in attrs.fields(Paired)},
        estimate=geometric_mean(ratios) if ratios else None,
        median=float(np.median(ratios)) if ratios else None,
        spread=spread(ratios),
        interval=interval,
        interval_note=note,
        bootstrap=bootstrap(logs),
        deployments=sum(repeat.deployments for repeat in pair.repeats),
        weak=any(repeat.weak for repeat in pair.repeats),
    )


def geometric_mean(values: Sequence[float]) -> float:
    """Give exp of the mean of logs."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _paired(arm: str, role: Role, found: Sequence[Point]) -> Paired:
    plain_roles = ("baseline",) if role == "noise_floor" else ("baseline", "noise_floor")
    ours = {point.block: point for point in found if point.arm == arm}
    plain: Mapping[int, list[Point]] = defaultdict(list)
    for point in found:
        if point.role in plain_roles and point.arm != arm:
            plain[point.block].append(point)
    repeats: list[Repeat] = []
    missing: list[str] = []
    for block, point in sorted(ours.items()):
        usable = [p for p in plain[block] if p.value is not None and p.value > 0]
        if point.value is None or point.value <= 0:
            missing.append(f"block {block}: {point.excluded or 'no value'}")
        elif not usable:
            missing.append(f"block {block}: no usable baseline")
        else:
            base = geometric_mean([p.value for p in usable if p.value is not None])
            repeats.append(
                Repeat(
                    block=block,
                    baseline=base,
                    arm=point.value,
                    ratio=point.value / base,
                    deployments=1 + len(usable),
                    weak=any(p.weak for p in (point, *usable)),
                )
            )
    head = found[0]
    return Paired(
        arm=arm,
        role=role,
        stratum=head.stratum,
        sampling=head.sampling,
        concurrency=head.concurrency,
        arrival_rate=head.arrival_rate,
        metric=head.metric,
        repeats=tuple(repeats),
        missing=tuple(missing),
    )
