"""Effects: paired log ratios arm / baseline inside blocks, summarised over blocks. Pure.

A deployment is the independent unit; requests in it are not. The baseline of a block is the
geometric mean of its plain baselines.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import attrs
import numpy as np

from specbench.analysis.intervals import Interval, t_interval

Metric = Literal["output_throughput", "ttft_p50_s", "tpot_p50_s", "e2e_p50_s"]
METRICS: tuple[Metric, ...] = ("output_throughput", "tpot_p50_s", "ttft_p50_s", "e2e_p50_s")
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


@attrs.frozen(kw_only=True)
class Effect:
    """An arm against the baseline in one cell, over blocks."""

    arm: str
    role: Role
    stratum: str
    sampling: str
    concurrency: int | None
    arrival_rate: float | None
    metric: Metric
    repeats: tuple[Repeat, ...]
    estimate: float | None
    """Geometric mean of the ratios."""
    median: float | None
    interval: Interval | None
    interval_note: str
    """Why there is no interval, or that it is wide."""
    missing: tuple[str, ...]
    """Blocks that give no ratio, and why."""


def effects(points: Iterable[Point]) -> tuple[Effect, ...]:
    """Give the effect of every arm in every cell and metric, in the order of the points.

    The A/A effect of the noise floor pairs the baseline's repeat with the baseline itself.
    """
    cells: dict[tuple[object, ...], list[Point]] = defaultdict(list)
    for point in points:
        load = (point.concurrency, point.arrival_rate)
        cells[point.stratum, point.sampling, load, point.metric].append(point)
    return tuple(
        _effect(arm, role, found)
        for found in cells.values()
        for arm, role in dict.fromkeys((p.arm, p.role) for p in found)
        if role != "baseline"
    )


def geometric_mean(values: Sequence[float]) -> float:
    """Give exp of the mean of logs."""
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _effect(arm: str, role: Role, found: Sequence[Point]) -> Effect:
    plain_roles = ("baseline",) if role == "noise_floor" else ("baseline", "noise_floor")
    ours = {point.block: point for point in found if point.arm == arm}
    plain: Mapping[int, list[Point]] = defaultdict(list)
    for point in found:
        if point.role in plain_roles and point.arm != arm:
            plain[point.block].append(point)
    repeats: list[Repeat] = []
    missing: list[str] = []
    for block, point in sorted(ours.items()):
        usable = [p.value for p in plain[block] if p.value is not None and p.value > 0]
        if point.value is None or point.value <= 0:
            missing.append(f"block {block}: {point.excluded or 'no value'}")
        elif not usable:
            missing.append(f"block {block}: no usable baseline")
        else:
            base = geometric_mean(usable)
            repeats.append(
                Repeat(block=block, baseline=base, arm=point.value, ratio=point.value / base)
            )
    ratios = [repeat.ratio for repeat in repeats]
    interval, note = t_interval([math.log(ratio) for ratio in ratios])
    head = found[0]
    return Effect(
        arm=arm,
        role=role,
        stratum=head.stratum,
        sampling=head.sampling,
        concurrency=head.concurrency,
        arrival_rate=head.arrival_rate,
        metric=head.metric,
        repeats=tuple(repeats),
        estimate=geometric_mean(ratios) if ratios else None,
        median=float(np.median(ratios)) if ratios else None,
        interval=interval,
        interval_note=note,
        missing=tuple(missing),
    )
