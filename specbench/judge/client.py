"""What held a window back: the client, the server's capacity, or a server that was not there. Pure.

The three are told apart, because only the first says nothing about the server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specbench.client_facts import Certificate, ClientFacts
from specbench.experiment.model import Gates
from specbench.facts import RequestRow, Verdict

LEAST_ANSWERED = 0.5
"""Share of requests with any answer below which a deployment is called unavailable."""
GROWTH = 1.5
"""Factor by which the requests in flight may grow from one third of a schedule to the next."""


def limits(
    rows: Sequence[RequestRow],
    client: ClientFacts | None,
    required: Gates,
    *,
    max_in_flight: int | None,
) -> Iterator[Verdict]:
    """Rule on what limited a window. `max_in_flight` is given under an open load only."""
    answered = sum(row.http_status is not None and row.http_status < 500 for row in rows)  # noqa: PLR2004 - HTTP's server errors
    share = answered / len(rows)
    failure = next((row for row in rows if row.status != "ok"), None)
    available = share >= LEAST_ANSWERED
    yield Verdict(
        gate="unavailable",
        outcome="pass" if available else "fail",
        observed=f"{answered} of {len(rows)} answered",
        required=f">= {LEAST_ANSWERED:.0%} answered, with no server error",
        advice="" if available or failure is None else f"{failure.status}: {failure.error}",
    )
    yield from client_limited(client, required, rows, max_in_flight, available=available)
    if max_in_flight is not None:
        yield _saturated(rows, client, max_in_flight)


def certificate_verdicts(certificate: Certificate, required: Gates) -> tuple[Verdict, ...]:
    """Rule whether a certificate shows a client that can drive what was planned."""
    share = certificate.reached_events_per_s / certificate.events_per_s
    reached = certificate.client.reached_in_flight
    held = share >= required.achieved_concurrency and reached >= certificate.streams
    complete = certificate.failed == 0
    return (
        Verdict(
            gate="certificate_load",
            outcome="pass" if held and complete else "fail",
            observed=f"{certificate.reached_events_per_s:,.0f} events/s over {reached} streams, "
            f"{certificate.failed} requests failed",
            required=f">= {required.achieved_concurrency:.0%} of {certificate.events_per_s:,.0f} "
            f"events/s over {certificate.streams} streams",
            advice=""
            if held and complete
            else f"the local server was late by {certificate.server_late_p99_s * 1e3:.3g} ms (p99)",
        ),
        *client_limited(certificate.client, required, (), None),
    )


def client_limited(
    client: ClientFacts | None,
    required: Gates,
    rows: Sequence[RequestRow],
    max_in_flight: int | None,
    *,
    available: bool = True,
) -> Iterator[Verdict]:
    """Rule whether the client could have been the bottleneck, and whether its clock held."""
    if client is None or not available:
        yield Verdict(
            gate="client_limited",
            outcome="undecided",
            observed="not recorded" if client is None else "hardly any answer to judge it by",
            required="the client's lag and CPU within the gates",
        )
        return
    waited = max_in_flight is not None and client.reached_in_flight >= max_in_flight
    observed = [f"CPU {client.cpu_share:.0%}"]
    beyond = [f"CPU {client.cpu_share:.0%}"] if client.cpu_share > required.client_cpu_share else []
    asked = [f"CPU <= {required.client_cpu_share:.0%} of a core"]
    asked.append(f"lag p99 <= {required.client_lag_p99_ms:g} ms")
    for name, late_s in (("lag", client.lag_p99_s), ("loop lag", client.loop_lag_p99_s)):
        if late_s is None:
            continue
        lag = f"{name} p99 {late_s * 1e3:.3g} ms"
        observed.append(lag)
        if late_s * 1e3 > required.client_lag_p99_ms:
            beyond.append(lag)
    if any(row.scheduled_ns is not None for row in rows):
        dispatch = f"dispatch p99 {client.dispatch_p99_s * 1e3:.3g} ms"
        observed.append(dispatch)
        asked.append(f"dispatch p99 <= {required.client_dispatch_p99_ms:g} ms")
        # A request that waited for a connection waited for the server.
        if client.dispatch_p99_s * 1e3 > required.client_dispatch_p99_ms and not waited:
            beyond.append(dispatch)
    yield Verdict(
        gate="client_limited",
        outcome="fail" if beyond else "pass",
        observed=", ".join(beyond or observed),
        required=", ".join(asked),
        advice="the numbers may be the client's: leave it more CPU, or raise load.processes"
        if beyond
        else "",
    )
    yield from _stamps(client, required)


def _stamps(client: ClientFacts, required: Gates) -> Iterator[Verdict]:
    stepped = client.clock_step_s != 0
    yield Verdict(
        gate="client_clock",
        outcome="fail" if stepped else "pass",
        observed=f"the wall clock was set by {client.clock_step_s:+.6f} s" if stepped else "held",
        required="no step of the wall clock, which stamps arrivals, in the window",
        advice="stop what sets the clock while measuring" if stepped else "",
    )
    many = client.merged_share > required.client_merged_share
    yield Verdict(
        gate="merged_reads",
        outcome="undecided" if many else "pass",
        observed=f"{client.merged_share:.2%} of events",
        required=f"<= {required.client_merged_share:.2%} share their read with an earlier one",
        advice="their stamps are upper bounds; unless the client is limited, the server, or a "
        "proxy on the way, sent them at once"
        if many
        else "",
    )


def _saturated(
    rows: Sequence[RequestRow], client: ClientFacts | None, max_in_flight: int
) -> Verdict:
    """Rule whether requests arrived faster than they were answered."""
    start = min(row.scheduled_ns or row.sent_ns for row in rows)
    third = (max(row.scheduled_ns or row.sent_ns for row in rows) - start) / 3
    second, last = (
        mean_in_flight(rows, start + third * place, start + third * (place + 1)) for place in (1, 2)
    )
    full = client is not None and client.reached_in_flight >= max_in_flight
    # Chance alone moves a count by about its root.
    grew = last > GROWTH * second and last - second > 2 * second**0.5 + 1
    said = f"{second:.1f} in flight in the second third of the schedule, {last:.1f} in the last"
    return Verdict(
        gate="server_saturated",
        outcome="undecided" if full or grew else "pass",
        observed=f"{said}; the limit of {max_in_flight} was reached" if full else said,
        required=f"no growth beyond {GROWTH:g} times",
        advice="the server answers more slowly than requests arrive: latencies grow with the "
        "length of the window"
        if full or grew
        else "",
    )


def mean_in_flight(rows: Sequence[RequestRow], start_ns: float, end_ns: float) -> float:
    """Give the time mean of requests that were due and not ended in a span."""
    if end_ns <= start_ns:
        return 0.0
    busy_ns = sum(
        max(min(row.ended_ns, end_ns) - max(row.scheduled_ns or row.sent_ns, start_ns), 0)
        for row in rows
    )
    return busy_ns / (end_ns - start_ns)
