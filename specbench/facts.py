"""What was observed, and what was ruled on it: frozen values that carry no behaviour of their own.

Instants are `time.perf_counter_ns()` of the client (CLOCK_MONOTONIC), durations are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

Outcome = Literal["pass", "fail", "undecided"]
RequestStatus = Literal[
    "ok", "http_error", "stream_error", "connection_lost", "timeout", "incomplete"
]
ClockKind = Literal["kernel", "user"]
"""What stamped the events: the kernel as they arrived, or the event loop when it read them."""


@attrs.frozen(kw_only=True)
class RequestRow:
    """One request as the client saw it. Failures are rows like any other."""

    request_id: str
    index: int
    """Place in the cell's order, from 0."""
    prompt_id: str
    pass_index: int
    """How often this prompt was sent before in the cell."""
    turn: int = 0
    scheduled_ns: int | None = None
    """When an open load was to send it; None in a closed one."""
    called_ns: int
    """The driver took the request up."""
    sent_ns: int
    """The instant of send(): every latency starts here."""
    first_event_ns: int | None = None
    first_payload_ns: int | None = None
    """First non-empty content, reasoning or tool payload: the end of TTFT."""
    first_tokens_ns: int | None = None
    """First event with generated token ids."""
    last_payload_ns: int | None = None
    """Last event with payload or finish_reason: the end of E2E."""
    ended_ns: int
    """The response was complete, or the request failed."""
    status: RequestStatus
    http_status: int | None = None
    error: str | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    """From the server's usage, never from counted events."""
    cached_tokens: int | None = None
    event_ns: Sequence[int] = ()
    """Arrival of every event with payload, tokens or finish_reason."""
    event_tokens: tuple[int | None, ...] = ()
    """Token ids in that event; None where the server sent none."""
    merged_events: int = 0
    """Events that shared their read with an earlier one, so that their stamps are upper bounds."""


@attrs.frozen(kw_only=True)
class Output:
    """What one request generated."""

    request_id: str
    prompt_id: str
    text: str
    token_ids: Sequence[int] | None
    finish_reason: str | None


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


@attrs.frozen(kw_only=True)
class Window:
    """One measured window: rows in the order of their index."""

    rows: tuple[RequestRow, ...]
    outputs: tuple[Output, ...]
    concurrency: int | None
    """None under an open load."""
    clock: ClockKind
    started_unix_s: float
    client: ClientFacts | None = None
    """How the client itself fared; None for windows of earlier versions."""


@attrs.frozen(kw_only=True)
class CounterNames:
    """How an engine names what we read from its /metrics."""

    drafts: str
    draft_tokens: str
    accepted_tokens: str
    accepted_per_position: str
    position_label: str
    engine_label: str
    generation_tokens: str
    preemptions: str
    prefix_queries: str
    prefix_hits: str
    running: str
    waiting: str
    process_start: str


@attrs.frozen(kw_only=True)
class CounterSnapshot:
    """Every counter and gauge of one read of /metrics."""

    series: Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


@attrs.frozen(kw_only=True)
class CounterDelta:
    """What the counters did between two snapshots of one process, summed over engines."""

    generation_tokens: int
    preemptions: int
    prefix_queries: int
    prefix_hits: int
    drafts: int | None
    """None when the server has no speculative series."""
    draft_tokens: int | None
    accepted_tokens: int | None
    accepted_per_position: tuple[int, ...] | None
    engines: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Acceptance:
    """What speculation did in a window, and by which source it is known."""

    drafts: int
    drafted: int
    accepted: int
    per_position: tuple[int, ...] | None
    source: Literal["counters", "per_request", "events"]


@attrs.frozen(kw_only=True)
class LogPattern:
    """A line of a launch log that states a fact. The group `value` is what it says."""

    fact: str
    regex: str
    constant: str | None = None
    """The value when the line's presence is the statement."""


@attrs.frozen(kw_only=True)
class Cause:
    """Why a server did not come up or went down, read from its log."""

    kind: str
    """One word, such as out_of_memory, missing_model, bad_flag or refused_configuration."""
    line: str
    remedy: str


@attrs.frozen(kw_only=True)
class Fact:
    """Something that a server said about itself, and where it said it."""

    name: str
    value: str
    source: str
    """The log line, or the path inside the resolved configuration."""


@attrs.frozen(kw_only=True)
class Audit:
    """What one deployment really ran. A fact that no source gave is absent: unknown."""

    facts: tuple[Fact, ...]

    def value(self, name: str) -> str | None:
        """Give a fact's value, or None when it is unknown."""
        return next((fact.value for fact in self.facts if fact.name == name), None)


@attrs.frozen(kw_only=True)
class Verdict:
    """The outcome of one declared rule."""

    gate: str
    outcome: Outcome
    observed: str
    required: str
    advice: str = ""


@attrs.frozen(kw_only=True)
class Difference:
    """A serving property in which an arm's deployment differs from the baseline's."""

    fact: str
    baseline: str
    arm: str
    meaning: str
    controlled: bool
    """A property that must be equal: its difference rejects the comparison."""


@attrs.frozen(kw_only=True)
class CellSummary:
    """The numbers of one window. None where a rule withholds the number."""

    requests: int
    successes: int
    duration_s: float
    output_tokens: int | None
    output_throughput: float | None
    """Successful completion tokens / (first send to last completion), in tokens per second."""
    steady_throughput: float | None
    """Tokens that arrived between the c-th (in an open load the first) and the last send, over
    that span."""
    achieved_concurrency: float | None
    ttft_p50_s: float | None
    ttft_p95_s: float | None
    ttft_p99_s: float | None
    tpot_p50_s: float | None
    tpot_p95_s: float | None
    tpot_p99_s: float | None
    e2e_p50_s: float | None
    e2e_p95_s: float | None
    e2e_p99_s: float | None
    ttft_scheduled_p50_s: float | None
    ttft_scheduled_p95_s: float | None
    ttft_scheduled_p99_s: float | None
    e2e_scheduled_p50_s: float | None
    e2e_scheduled_p95_s: float | None
    e2e_scheduled_p99_s: float | None
    """The same times from the instant at which an open load was to send; None in a closed one."""
    p95_weak: bool
    """Fewer than 200 successes stand behind the p95 values."""
    p99_weak: bool
    """Fewer than 1,000 successes stand behind the p99 values."""
    tokens_per_event: float | None
    events: int
    merged_events: int


@attrs.frozen(kw_only=True)
class AcceptanceSummary:
    """Ratios of one window's acceptance, each under its own unambiguous name."""

    acceptance_rate: float | None
    """accepted / drafted."""
    acceptance_length: float | None
    """1 + accepted / drafts."""
    per_position: tuple[float, ...] | None
    """Accepted at position i / drafts; sums to the acceptance length minus one."""
    tokens_per_step: float | None
    """T / (T - accepted) over the window's completion tokens T: the bound on the gain."""
    delivered_accepted_max: int | None
    """Most accepted tokens that can have reached a client: accepted counts precede truncation."""


@attrs.frozen(kw_only=True)
class JournalEntry:
    """One step of the walk, as it happened."""

    unix_s: float
    monotonic_ns: int
    phase: str
    """launch, ready, audit, capture, warm, settle, drive, write or stop; notes have their own."""
    state: Literal["start", "end", "note"]
    deployment: str = ""
    cell: str = ""
    detail: Mapping[str, Any] = attrs.field(factory=dict)
