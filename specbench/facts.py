"""What was observed, and what was ruled on it: frozen values that carry no behaviour of their own.

Instants are `time.perf_counter_ns()` of the client (CLOCK_MONOTONIC), durations are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from specbench.client_facts import ClientFacts, ClockKind
from specbench.properties import Value, typed

Outcome = Literal["pass", "fail", "undecided"]
Direction = Literal["favours baseline", "favours speculation", "unclear"]
Scope = Literal["common", "asymmetric"]
Candidates = Sequence[tuple[int, float]]
"""Likely token ids of one place, each with the nats that it lies behind the likeliest."""
RequestStatus = Literal[
    "ok", "http_error", "stream_error", "connection_lost", "timeout", "incomplete"
]


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
    drafts: int | None = None
    """By the server's own metrics of this request, as the next two; None where it told none."""
    drafted_tokens: int | None = None
    accepted_tokens: int | None = None
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
    candidates: Sequence[Candidates] | None = None
    """Of each token; None where nobody asked, or the server told no token ids."""
    prompt_reuse: float | None = None
    """Share of its runs of four words or signs that stand in the prompt."""


@attrs.frozen(kw_only=True)
class Window:
    """One measured window: rows in the order of their index."""

    # Event loops build the repr of what they return: with every stamp, it outweighs the window.
    rows: tuple[RequestRow, ...] = attrs.field(repr=False)
    outputs: tuple[Output, ...] = attrs.field(repr=False)
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
    iterations: str
    """Count of the histogram of engine steps."""
    queue: str
    prefill: str
    decode: str
    """Histograms, without `_sum` and `_count`, of the seconds that requests spent so."""
    kv_usage: str
    played_steps: str | None = None
    """Steps of an engine that tells how well it kept its time: the simulated one."""
    late_steps: str | None = None
    """Those of them that ended later than they should have."""
    tpot_sum: str | None = None
    """Seconds per output token by the server's own clock, summed over finished requests."""
    tpot_count: str | None = None
    """Requests in that sum."""


@attrs.frozen(kw_only=True)
class CounterSnapshot:
    """Every counter and gauge of one read of /metrics."""

    series: Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


@attrs.frozen(kw_only=True)
class CounterDelta:
    """What the counters did between two snapshots of one process, summed over engines."""

    generation_tokens: int
    preemptions: int | None
    """None, as below, where the server has no such series."""
    prefix_queries: int | None
    prefix_hits: int | None
    drafts: int | None
    """None when the server has no speculative series."""
    draft_tokens: int | None
    accepted_tokens: int | None
    accepted_per_position: tuple[int, ...] | None
    engines: tuple[str, ...]


@attrs.frozen(kw_only=True)
class ServerSide:
    """How the server spent a window, by its own histograms. None where it has none."""

    engine_steps: int | None
    """Steps that produced output, drafted or not, summed over engines."""
    realised_batch: float | None
    """Tokens of the target's own a step, at least: the sequences that a step advanced."""
    step_s: float | None
    """Window seconds a step of one engine. Comparable at equal realised batch only."""
    undrafted_least: int | None
    """Sequence steps that went without a draft, at least."""
    queue_mean_s: float | None
    prefill_mean_s: float | None
    decode_mean_s: float | None


@attrs.frozen(kw_only=True)
class Sample:
    """One reading inside a window."""

    at_ns: int
    of: str
    """`server`, or an accelerator such as `gpu0`."""
    quantity: str
    """Such as running, kv_usage, sm_clock_mhz."""
    value: float


@attrs.frozen(kw_only=True)
class Sampled:
    """What the samples of one window amount to. None where nobody told."""

    samples: int
    running_mean: float | None
    waiting_max: float | None
    kv_usage_max: float | None
    gpu_memory_gib: float | None
    gpu_utilisation: float | None
    sm_clock_mhz: float | None
    power_w: float | None
    energy_per_token_j: float | None
    sm_activity: float | None
    tensor_activity: float | None
    nvlink_mib_s: float | None
    pcie_mib_s: float | None


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
    literal: str = ""
    """Text that every such line has: looked for before the regex, which costs more."""
    keep: Literal["last", "least", "most", "each"] = "last"
    """Which of several lines counts; `each` joins what they say with `and`."""
    decides: bool = False
    """A worker decides it after the configuration that the server tells, which it overrides."""
    listed: bool = False
    """The value is a list: its commas stay."""
    begins: bool = False
    """The first line of a launch: what stands above it in the log is of an earlier one."""
    elapsed: bool = False
    """The value is the seconds from the first stamp of the log to this line's."""
    warning: str = ""
    """What the line means where it is a warning, and states no value; `fact` is then its kind."""
    timed: bool = False
    """What it warns of bends the numbers of the window that it falls into, and of no other."""


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
class LogWarning:
    """A warning of a launch log that matters for a measurement."""

    kind: str
    meaning: str
    line: str


@attrs.frozen(kw_only=True)
class Audit:
    """What one deployment really ran. A fact that no source gave is absent: unknown."""

    facts: tuple[Fact, ...]
    warnings: tuple[LogWarning, ...] = ()

    def value(self, name: str) -> str | None:
        """Give a fact's value, or None when it is unknown."""
        return next((fact.value for fact in self.facts if fact.name == name), None)

    def typed(self, name: str) -> Value | None:
        """Give a fact's value as its property's type, or None when it is unknown."""
        text = self.value(name)
        return None if text is None else typed(name, text)


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
    """A serving property in which an arm's deployment or cell differs from a baseline's."""

    fact: str
    baseline: str
    arm: str
    direction: Direction
    """Whom the difference favours, all else equal."""
    meaning: str
    controlled: bool
    """A property that must be equal: its difference rejects the comparison."""
    scope: Scope = "asymmetric"
    """common: every speculative arm differs so. asymmetric: they differ among themselves, too."""
    sentence: str
    """The difference in plain words."""


@attrs.frozen(kw_only=True)
class Anomaly:
    """Something in the numbers that a person must look at before believing them."""

    kind: str
    arm: str
    stratum: str
    sampling: str
    concurrency: int | None
    """Without it and a rate it is about all load points."""
    arrival_rate: float | None = None
    sentence: str


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
