"""How requests arrive: what people may write under `load`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from specbench.experiment.said import said


@attrs.frozen(kw_only=True)
class ClosedLoad:
    """A constant number of requests in flight."""

    concurrency: tuple[int, ...] = attrs.field(
        metadata=said("Load points: requests in flight.", minItems=1, uniqueItems=True)
    )
    requests: Mapping[int, int] = attrs.field(
        factory=dict,
        metadata=said(
            "Requests of a cell by concurrency. Default: whole passes over the stratum's prompts, "
            "at least max(64, 10 x concurrency)."
        ),
    )
    repeat: bool = attrs.field(
        default=False,
        metadata=said("Allow a prompt to be sent again when requests are no whole passes."),
    )
    warmup: int = attrs.field(
        default=0, metadata=said("Least requests of a warm-up wave; never under 2 x concurrency.")
    )


@attrs.frozen(kw_only=True)
class OpenLoad:
    """Requests that arrive whether or not earlier ones are answered."""

    rate: tuple[float, ...] = attrs.field(
        default=(),
        metadata=said("Load points: mean requests a second.", uniqueItems=True),
    )
    arrivals: Literal["poisson", "gamma", "constant", "trace", "workload"] = attrs.field(
        default="poisson",
        metadata=said(
            "Distribution of the gaps between arrivals. trace: instants from a file. workload: "
            "each prompt when it arrived in its source (arrival_s), in that order."
        ),
    )
    variation: float = attrs.field(
        default=2.0,
        metadata=said(
            "Coefficient of variation of gamma gaps; 1 is poisson, more comes in bursts.",
            exclusiveMinimum=0,
        ),
    )
    trace: str | None = attrs.field(
        default=None,
        metadata=said("File of arrival instants, seconds from the start, one a line, for trace."),
    )
    duration_s: float | None = attrs.field(
        default=None, metadata=said("Length of the schedule.", exclusiveMinimum=0)
    )
    requests: int | None = attrs.field(
        default=None, metadata=said("Arrivals of a cell, instead of a duration.", minimum=2)
    )
    max_in_flight: int = attrs.field(
        default=4096,
        metadata=said("Most connections. A request that finds none free waits, and is late."),
    )
    warmup: int = attrs.field(default=0, metadata=said("Least requests of a warm-up wave."))


@attrs.frozen(kw_only=True)
class Timeouts:
    """How long a request may take, by its phase. One that takes longer has failed."""

    connect_s: float = attrs.field(
        default=30.0, metadata=said("Longest opening of a connection.", exclusiveMinimum=0)
    )
    first_event_s: float | None = attrs.field(
        default=None, metadata=said("Longest wait for a first event.", exclusiveMinimum=0)
    )
    between_events_s: float | None = attrs.field(
        default=None, metadata=said("Longest silence between two events.", exclusiveMinimum=0)
    )
    request_s: float = attrs.field(
        default=600.0, metadata=said("Longest whole request.", exclusiveMinimum=0)
    )

    @property
    def shortest_s(self) -> float:
        """The first limit that a request can reach once it is sent."""
        asked = (self.first_event_s, self.between_events_s, self.request_s)
        return min(limit_s for limit_s in asked if limit_s is not None)


@attrs.frozen(kw_only=True)
class Load:
    """How requests arrive. An experiment holds one kind."""

    closed: ClosedLoad | None = attrs.field(
        default=None, metadata=said("Closed loop: so many requests in flight.")
    )
    open: OpenLoad | None = attrs.field(
        default=None, metadata=said("Open loop: so many requests a second.")
    )
    timeouts: Timeouts = attrs.field(factory=Timeouts, metadata=said("Limits of each request."))
    processes: int = attrs.field(
        default=1,
        metadata=said("Client processes, for loads past one core.", minimum=1, maximum=256),
    )
