"""The cells of an experiment: its strata and samplings at every load point. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs

from specbench.experiment.load import ClosedLoad, Load
from specbench.experiment.model import Sampling
from specbench.experiment.prompt import Prompt
from specbench.experiment.read import ReadExperiment
from specbench.traffic.arrivals import arrivals_ns
from specbench.traffic.requests import shuffled
from specbench.units import NS_PER_S

LEAST_REQUESTS = 64
REQUESTS_PER_STREAM = 10
LEAST_WAVE = 8
EVENT_S = 0.01
"""Assumed time between two events of a stream."""


@attrs.frozen(kw_only=True)
class PlannedCell:
    """One measured window to come."""

    stratum: str
    sampling: Sampling
    concurrency: int | None
    """None under an open load."""
    arrival_rate: float | None = None
    """Requests a second; None under a closed load."""
    arrivals_ns: tuple[int, ...] = ()
    """When each request arrives, from the start; empty under a closed load."""
    requests: int

    @property
    def name(self) -> str:
        """Its folder's name."""
        point = f"c{self.concurrency}" if self.concurrency else f"r{self.arrival_rate:g}"
        return f"{self.stratum}-{self.sampling.name}-{point}"


def planned_cells(read: ReadExperiment) -> tuple[PlannedCell, ...]:
    """Give every cell of a deployment, in the order of the experiment."""
    experiment = read.experiment
    points = _open_cells if experiment.load.open is not None else _closed_cells
    return tuple(
        cell
        for stratum in read.strata()
        for sampling in experiment.sampling
        for cell in points(read, stratum, sampling)
    )


def _closed_cells(read: ReadExperiment, stratum: str, sampling: Sampling) -> Iterator[PlannedCell]:
    closed = read.experiment.load.closed
    assert closed is not None
    for concurrency in closed.concurrency:
        yield PlannedCell(
            stratum=stratum,
            sampling=sampling,
            concurrency=concurrency,
            requests=requests_of_cell(read, closed, stratum, concurrency),
        )


def _open_cells(read: ReadExperiment, stratum: str, sampling: Sampling) -> Iterator[PlannedCell]:
    """Give the cells of an open load. Every arm and block meets the same arrivals."""
    load = read.experiment.load.open
    assert load is not None
    replayed_s = read.arrivals_s(stratum)
    own_rate = len(replayed_s) / replayed_s[-1] if replayed_s else 0.0
    for rate in load.rate or (float(f"{own_rate:.4g}"),):
        seed = f"{read.experiment.design.seed}/arrivals/{stratum}/{sampling.name}/{rate:g}"
        arrivals = arrivals_ns(load, rate, seed, replayed_s)
        yield PlannedCell(
            stratum=stratum,
            sampling=sampling,
            concurrency=None,
            arrival_rate=rate,
            arrivals_ns=arrivals,
            requests=len(arrivals),
        )


def sent_order(read: ReadExperiment, stratum: str) -> list[Prompt]:
    """Give a stratum's prompts in the one order in which every load point sends them.

    It is seeded, or that of their arrivals where these are replayed.
    """
    load, prompts = read.experiment.load.open, read.prompts(stratum)
    if load is not None and load.arrivals == "workload":
        return sorted(prompts, key=lambda prompt: prompt.arrival_s or 0.0)
    return shuffled(prompts, read.experiment.design.seed)


def most_streams(read: ReadExperiment) -> int:
    """Give the most requests that may be in flight at once."""
    load = read.experiment.load
    if load.open is not None:
        return load.open.max_in_flight
    assert load.closed is not None
    return max(load.closed.concurrency)


def largest_load(read: ReadExperiment) -> tuple[int, float]:
    """Give the most streams and events a second to be expected, for the client's certificate.

    A server's pace is not known before: a stream is taken to bring an event every 10 ms.
    """
    load = read.experiment.load
    if load.closed is not None:
        streams = max(load.closed.concurrency)
        return streams, streams / EVENT_S
    tokens = max(mean_max_tokens(read, stratum) for stratum in read.strata())
    rates = (cell.arrival_rate or 0 for cell in planned_cells(read))
    # Each request lives for its tokens' time (Little's law).
    streams = max(1, math.ceil(max(rates) * tokens * EVENT_S))
    return streams, streams / EVENT_S


def mean_max_tokens(read: ReadExperiment, stratum: str) -> float:
    """Give the mean cap of a stratum's prompts, the turns of a conversation together."""
    prompts = read.prompts(stratum)
    return sum(prompt.max_tokens * (len(prompt.turns) or 1) for prompt in prompts) / len(prompts)


def warm_up_requests(load: Load, cell: PlannedCell) -> int:
    """Give the requests of a warm-up wave: as asked, and two a stream or a second's arrivals."""
    if load.open is not None:
        return max(load.open.warmup, LEAST_WAVE, math.ceil(cell.arrival_rate or 0))
    assert load.closed is not None
    return max(load.closed.warmup, 2 * (cell.concurrency or 0))


def requests_of_cell(
    read: ReadExperiment, closed: ClosedLoad, stratum: str, concurrency: int
) -> int:
    """Give the requests of a cell: as asked, or whole passes over the stratum's prompts."""
    asked = closed.requests.get(concurrency)
    if asked is not None:
        return asked
    size = len(read.prompts(stratum))
    least = max(LEAST_REQUESTS, REQUESTS_PER_STREAM * concurrency)
    return math.ceil(least / size) * size


def steady_arrivals_ns(cell: PlannedCell, requests: int) -> tuple[int, ...]:
    """Give evenly spaced arrivals at a cell's rate, for its warm-up; none under a closed load."""
    if cell.arrival_rate is None:
        return ()
    return tuple(round(place * NS_PER_S / cell.arrival_rate) for place in range(requests))
