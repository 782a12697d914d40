"""Speed-up of a declared mix of requests. Pure.

With a share w of requests in each stratum and t window seconds per successful request, serving one
mixed request takes the sum of w x t: the speed-up is that sum of the baseline over that of the arm.
It is taken inside blocks, like every effect.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

import attrs

from specbench.analysis.effects import Paired, Repeat, Role, geometric_mean
from specbench.analysis.intervals import Interval, t_interval


@attrs.frozen(kw_only=True)
class MixedTraffic:
    """What an arm does to the time of the mix at one load point."""

    arm: str
    role: Role
    sampling: str
    concurrency: int | None
    arrival_rate: float | None
    shares: Mapping[str, float]
    """By stratum, as declared."""
    speedups: Mapping[int, float]
    """By block; above 1 the arm is faster."""
    speedup: float | None
    """Geometric mean over blocks."""
    interval: Interval | None
    interval_note: str
    missing: tuple[str, ...]


def traffic_mix(pairs: Iterable[Paired], shares: Mapping[str, float]) -> tuple[MixedTraffic, ...]:
    """Give the speed-up of every arm, sampling and load point; nothing without declared shares."""
    loads: dict[tuple[str, Role, str, int | None, float | None], list[Paired]] = defaultdict(list)
    for pair in pairs:
        if pair.metric == "window_s_per_request" and shares.get(pair.stratum, 0) > 0:
            key = (pair.arm, pair.role, pair.sampling, pair.concurrency, pair.arrival_rate)
            loads[key].append(pair)
    return tuple(
        _mixed(arm, role, sampling, (concurrency, rate), found, shares)
        for (arm, role, sampling, concurrency, rate), found in loads.items()
    )


def _mixed(
    arm: str,
    role: Role,
    sampling: str,
    load: tuple[int | None, float | None],
    found: Iterable[Paired],
    shares: Mapping[str, float],
) -> MixedTraffic:
    by_stratum = {pair.stratum: {r.block: r for r in pair.repeats} for pair in found}
    needed = [stratum for stratum, share in shares.items() if share > 0]
    blocks = sorted({block for repeats in by_stratum.values() for block in repeats})
    speedups: dict[int, float] = {}
    missing: list[str] = []
    for block in blocks:
        lacking = [s for s in needed if block not in by_stratum.get(s, {})]
        if lacking:
            missing.append(f"block {block}: no ratio of {', '.join(lacking)}")
        else:
            speedups[block] = _speedup({s: by_stratum[s][block] for s in needed}, shares)
    interval, note = t_interval([math.log(value) for value in speedups.values()])
    return MixedTraffic(
        arm=arm,
        role=role,
        sampling=sampling,
        concurrency=load[0],
        arrival_rate=load[1],
        shares=shares,
        speedups=speedups,
        speedup=geometric_mean(list(speedups.values())) if speedups else None,
        interval=interval,
        interval_note=note,
        missing=tuple(missing),
    )


def _speedup(repeats: Mapping[str, Repeat], shares: Mapping[str, float]) -> float:
    def mixed_s(side: str) -> float:
        return math.fsum(shares[s] * getattr(repeat, side) for s, repeat in repeats.items())

    return mixed_s("baseline") / mixed_s("arm")
