"""Acceptance by counters against the tokens of events and the metrics of requests. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.facts import Acceptance, CounterDelta, RequestRow, Verdict

GATE = "acceptance_sources"
REQUESTS_GATE = "acceptance_of_requests"


def delivered_by_events(rows: Sequence[RequestRow]) -> int | None:
    """Give the accepted tokens that reached the client, at most.

    An engine step of one request is one event: its own token and the accepted ones. Where events
    were merged on their way, own tokens are taken for accepted ones, so that this is never too
    small. None where an event states no token ids.
    """
    counts = [count for row in rows for count in row.event_tokens]
    known = [count for count in counts if count is not None]
    if not known or len(known) < len(counts):
        return None
    return sum(max(count - 1, 0) for count in known)


def told_by_requests(rows: Sequence[RequestRow]) -> Acceptance | None:
    """Give acceptance by the server's metrics of each request; None where one told none."""
    told = [(row.drafts, row.drafted_tokens, row.accepted_tokens) for row in rows]
    known = [
        (drafts, drafted, accepted)
        for drafts, drafted, accepted in told
        if drafts is not None and drafted is not None and accepted is not None
    ]
    if not known or len(known) < len(told):
        return None
    drafts, drafted, accepted = (sum(column) for column in zip(*known, strict=True))
    return Acceptance(
        drafts=drafts, drafted=drafted, accepted=accepted, per_position=None, source="per_request"
    )


def same_as_requests(found: Acceptance, rows: Sequence[RequestRow]) -> Verdict | None:
    """Rule whether counters and the metrics of single requests tell the same.

    Both count before the cut of an output (vllm/v1/spec_decode/metrics.py, 0.32), so they are equal
    when every request told. None without such metrics.
    """
    told = told_by_requests(rows)
    if told is None:
        return None
    sides = [
        f"{a.drafts} drafts, {a.drafted} drafted, {a.accepted} accepted" for a in (found, told)
    ]
    same = sides[0] == sides[1]
    return Verdict(
        gate=REQUESTS_GATE,
        outcome="pass" if same else "fail",
        observed=f"counters: {sides[0]}; requests: {sides[1]}",
        required="equal",
        advice="" if same else "another client uses this server, or a counter is late",
    )


def reconciled(
    found: Acceptance, delta: CounterDelta, rows: Sequence[RequestRow], longest_draft: int
) -> Verdict | None:
    """Rule whether counters and events can be true together; None where one of them is silent.

    Counters precede the cut at the end of an output, where a request loses at most its last draft:
    accepted - k x R <= delivered <= accepted. More was delivered only by merged events; less cannot
    be, unless a request failed or was preempted, whose steps are counted and not delivered.
    """
    delivered = delivered_by_events(rows)
    if delivered is None or not longest_draft:
        return None
    least = found.accepted - longest_draft * len(rows)
    whole = all(row.status == "ok" for row in rows) and not delta.preemptions
    advice = ""
    if delivered > found.accepted:
        outcome, advice = "undecided", "events were merged on their way: believe the counters"
    elif delivered >= least:
        outcome = "pass"
    else:
        outcome = "fail" if whole else "undecided"
        advice = "the server counted what this client did not get"
    return Verdict(
        gate=GATE,
        outcome=outcome,  # type: ignore[arg-type]  # one of three literals, chosen above
        observed=f"counters: {found.accepted} accepted; events: at most {delivered} delivered",
        required=f"delivered from {max(least, 0)} to {found.accepted}",
        advice=advice,
    )
