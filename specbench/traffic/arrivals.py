"""When the requests of an open load arrive, from its seed. Pure.

Gaps are drawn and added up as they are. They are never rescaled to a rate or to a duration: that
would make arrivals more regular than a Poisson process, and queues shorter than they are.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence

from specbench.experiment.load import OpenLoad
from specbench.units import NS_PER_S


def arrivals_ns(
    load: OpenLoad, rate: float, seed: str, trace_s: Sequence[float] = ()
) -> tuple[int, ...]:
    """Give the instants, in nanoseconds from the start, until `requests` or `duration_s` is met.

    `rate` is in requests a second. What is replayed has its own instants, which `trace_s` gives.
    """
    if load.arrivals in ("trace", "workload"):
        instants_s: Iterator[float] = iter(trace_s)
    else:
        instants_s = itertools.accumulate(_gaps_s(load, rate, random.Random(seed)))  # noqa: S311 - no secret
    if load.duration_s is not None:
        end_s = load.duration_s
        instants_s = itertools.takewhile(lambda instant_s: instant_s < end_s, instants_s)
    return tuple(
        round(instant_s * NS_PER_S) for instant_s in itertools.islice(instants_s, load.requests)
    )


def _gaps_s(load: OpenLoad, rate: float, chance: random.Random) -> Iterator[float]:
    draw: Callable[[], float]
    match load.arrivals:
        case "poisson":
            draw = lambda: chance.expovariate(rate)  # noqa: E731 - as its siblings
        case "gamma":
            # A gamma gap of shape k has the coefficient of variation 1 / sqrt(k).
            shape = 1 / load.variation**2
            draw = lambda: chance.gammavariate(shape, 1 / (shape * rate))  # noqa: E731
        case _:
            draw = lambda: 1 / rate  # noqa: E731
    return (draw() for _ in itertools.count())
