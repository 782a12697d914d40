"""Nuisances, described and never corrected for: drift over time, and the node. Pure.

Every value is set against its own arm's, so that arms do not pass for time. Drift is the slope of
least squares with a level for each arm; over the place in the block also with one for each block,
over elapsed hours without, since blocks are what moves through the hours.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Literal

import attrs
import numpy as np

from specbench.analysis.effects import geometric_mean
from specbench.analysis.intervals import LEVEL, Interval

Factor = Literal["place", "hours"]
LEAST_FREEDOM = 2
"""Values that must be left over after levels and slope, for an interval."""


@attrs.frozen(kw_only=True)
class Placed:
    """One deployment's value in one cell, with where and when it was measured."""

    arm: str
    block: int
    place: int
    """Order in the block, from 1."""
    hours: float
    """Since the run's first window."""
    host: str | None
    value: float


@attrs.frozen(kw_only=True)
class Drift:
    """How a metric moved with time."""

    factor: Factor
    change: float | None
    """Ratio for one more place or hour; 1 is no drift."""
    interval: Interval | None
    deployments: int
    note: str
    """Why there is none."""


@attrs.frozen(kw_only=True)
class Node:
    """An arm on one node against the arm's mean over all nodes."""

    host: str
    arm: str
    deployments: int
    ratio: float


def drift(values: Sequence[Placed], factor: Factor) -> Drift:
    """Give the drift of one cell's values over all arms."""
    arms = sorted({item.arm for item in values})
    blocks = sorted({item.block for item in values})
    along = np.array([item.place if factor == "place" else item.hours for item in values], float)
    columns = [np.array([float(item.arm == arm) for item in values]) for arm in arms]
    if factor == "place":
        # The first block is the level that the others are set against.
        columns += [np.array([float(v.block == block) for v in values]) for block in blocks[1:]]
    levels = np.stack(columns, axis=1)
    freedom = len(values) - int(np.linalg.matrix_rank(levels)) - 1
    if freedom < LEAST_FREEDOM:
        return _no_drift(factor, len(values), f"{len(values)} deployments are too few")
    logs = np.log([item.value for item in values])
    # What the levels leave of both, by the theorem of Frisch, Waugh and Lovell.
    left_along, left_logs = (
        side - levels @ np.linalg.lstsq(levels, side, rcond=None)[0] for side in (along, logs)
    )
    varied = float(left_along @ left_along)
    if varied <= 1e-9 * max(1.0, float(along @ along)):
        return _no_drift(factor, len(values), f"every arm stood at the same {factor}")
    slope = float(left_along @ left_logs) / varied
    rest = left_logs - slope * left_along
    from scipy.special import stdtrit  # scipy is slow to import

    error = math.sqrt(float(rest @ rest) / freedom / varied)
    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error
    return Drift(
        factor=factor,
        change=math.exp(slope),
        interval=Interval(math.exp(slope - half), math.exp(slope + half)),
        deployments=len(values),
        note="",
    )


def nodes(values: Sequence[Placed]) -> Iterator[Node]:
    """Give every arm on every node that is known."""
    by_arm: dict[str, list[Placed]] = defaultdict(list)
    for item in values:
        if item.host is not None:
            by_arm[item.arm].append(item)
    for arm, found in by_arm.items():
        mean = geometric_mean([item.value for item in found])
        for host in sorted({item.host for item in found if item.host is not None}):
            here = [item.value for item in found if item.host == host]
            yield Node(host=host, arm=arm, deployments=len(here), ratio=geometric_mean(here) / mean)


def never_shared(values: Sequence[Placed], plain: Collection[str]) -> Mapping[str, str]:
    """Give the arms that never ran on a node of a plain baseline: node and method are one then."""
    hosts: dict[str, set[str]] = defaultdict(set)
    for item in values:
        if item.host is not None:
            hosts[item.arm].add(item.host)
    baseline = {host for arm in plain for host in hosts.get(arm, ())}
    return {
        arm: f"it ran on {', '.join(sorted(found))} only, where no baseline did"
        for arm, found in hosts.items()
        if arm not in plain and baseline and not found & baseline
    }


def _no_drift(factor: Factor, deployments: int, note: str) -> Drift:
    return Drift(factor=factor, change=None, interval=None, deployments=deployments, note=note)
