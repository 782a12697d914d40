"""What was observed of the client that measured: its clock, its lag, and its certificate."""

from __future__ import annotations

from typing import Literal

import attrs

ClockKind = Literal["kernel", "user"]
"""What stamped the events: the kernel as they arrived, or the event loop when it read them."""


@attrs.frozen(kw_only=True)
class ClientFacts:
    """How the client itself fared in a window: whether it could have been the bottleneck."""

    event_loop: str
    """uvloop or asyncio."""
    processes: int
    duration_s: float
    """First send to the end of the last response."""
    cpu_share: float
    """CPU time / duration of the busiest client process: 1 is a whole core."""
    events: int
    merged_share: float
    """Events that shared their read with an earlier one / events."""
    lag_p50_s: float | None
    lag_p99_s: float | None
    lag_max_s: float | None
    """By how much the client read bytes later than the last of them arrived. None with the user
    clock, which does not know."""
    loop_lag_p99_s: float | None = None
    """By how much a timer of 5 ms came late: what holds the client up, also where events pile up in
    one read and its last stamp hides how long the first one waited."""
    dispatch_p50_s: float
    dispatch_p95_s: float
    dispatch_p99_s: float
    """From the instant at which a request was due to its send(). Due is the scheduled instant, and
    in a closed load the end of the response before it."""
    reached_in_flight: int
    """Most requests in flight at once."""
    unstamped_reads: int
    """Reads without a usable kernel stamp, which got the time of reading."""
    clock_error_s: float
    """Bound of the error of converting kernel stamps to the client's clock."""
    clock_step_s: float
    """Largest step of the wall clock in the window; 0 when there was none."""


@attrs.frozen(kw_only=True)
class Certificate:
    """What this machine's client was shown to do, against a local server that paces events."""

    machine: str
    """Host, kernel, Python and specbench that it holds for."""
    made_unix_s: float
    streams: int
    events_per_s: float
    """Offered: streams / the time between two events of one."""
    reached_events_per_s: float
    """What came, over the streams' own spans."""
    clock: ClockKind
    client: ClientFacts
    failed: int
    """Requests that did not succeed."""
    ttft_error_p95_s: float
    """Our TTFT without the server's own, from its receive to its send."""
    event_error_p50_s: float
    event_error_p99_s: float
    """Our stamp of an event without the server's stamp of its send."""
    server_late_p99_s: float
    """By how much the paced server itself was late: no fault of the client."""
