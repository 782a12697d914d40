"""How acceptance goes with speed, over arms. Pure, and explanatory only.

Acceptance is not manipulated: arms differ in drafter, draft length and settings at once, so that a
correlation explains nothing by itself and no decision rests on it. One point is one arm, averaged
over blocks: deployments of one arm accept nearly the same and are no independent points here.
Stratum, sampling and load point are never pooled, for each moves both.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import product
from typing import Literal

import attrs
import numpy as np

LEAST_ARMS = 4
"""Of three points, a third of all orders is perfectly monotone."""

Quantity = Literal["acceptance_rate", "acceptance_length"]
QUANTITIES: tuple[Quantity, ...] = ("acceptance_rate", "acceptance_length")


@attrs.frozen(kw_only=True)
class Accepted:
    """Acceptance of one arm in one cell of one block, and what its speed was there."""

    block: int
    arm: str
    stratum: str
    sampling: str
    concurrency: int | None
    arrival_rate: float | None
    metric: str
    ratio: float
    """Arm / baseline of the block, so that what a block does to both cancels."""
    acceptance_rate: float | None
    acceptance_length: float | None


@attrs.frozen(kw_only=True)
class Correlation:
    """An acceptance quantity against a metric's ratio over the arms of one cell."""

    stratum: str
    sampling: str
    concurrency: int | None
    arrival_rate: float | None
    quantity: Quantity
    metric: str
    arms: int
    pearson: float | None
    """Of the quantity with the log of the ratio."""
    spearman: float | None
    """Of their ranks."""
    note: str
    """Why there is none."""


def correlations(points: Iterable[Accepted]) -> tuple[Correlation, ...]:
    """Give every correlation of every cell, in the order of the points."""
    cells: dict[tuple[object, ...], list[Accepted]] = defaultdict(list)
    for point in points:
        load = (point.concurrency, point.arrival_rate)
        cells[point.stratum, point.sampling, load, point.metric].append(point)
    return tuple(
        _correlation(found, quantity) for found, quantity in product(cells.values(), QUANTITIES)
    )


def pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Give the product-moment correlation; None where a side is constant."""
    if max(x) == min(x) or max(y) == min(y):
        return None
    return float(np.clip(np.corrcoef(x, y)[0, 1], -1, 1))


def spearman(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Give the correlation of ranks, ties at their mean rank; None where a side is constant."""
    return pearson(_ranks(x), _ranks(y))


def _ranks(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    below = {value: ordered.index(value) for value in set(values)}
    return [below[value] + (values.count(value) + 1) / 2 for value in values]


def _correlation(found: Sequence[Accepted], quantity: Quantity) -> Correlation:
    arms: dict[str, list[Accepted]] = defaultdict(list)
    for point in found:
        if getattr(point, quantity) is not None:
            arms[point.arm].append(point)
    head, enough = found[0], len(arms) >= LEAST_ARMS
    x = [statistics.fmean(getattr(p, quantity) for p in points) for points in arms.values()]
    y = [statistics.fmean(math.log(p.ratio) for p in points) for points in arms.values()]
    moment = pearson(x, y) if enough else None
    few = f"{len(arms)} arms with acceptance: none under {LEAST_ARMS}"
    return Correlation(
        stratum=head.stratum,
        sampling=head.sampling,
        concurrency=head.concurrency,
        arrival_rate=head.arrival_rate,
        quantity=quantity,
        metric=head.metric,
        arms=len(arms),
        pearson=moment,
        spearman=spearman(x, y) if enough else None,
        note=few if not enough else ("" if moment is not None else "all arms are equal in one"),
    )
