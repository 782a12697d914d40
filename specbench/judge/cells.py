"""A window's rows to its numbers, and its gates. Pure.

Failures never enter a latency and always enter the success gate.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from specbench.experiment.model import Gates
from specbench.facts import CellSummary, RequestRow, Verdict
from specbench.units import seconds

WITHHELD_BELOW = {0.95: 60, 0.99: 300}
"""Successes under which a tail percentile is not given."""
WEAK_BELOW = {0.95: 200, 0.99: 1000}
"""Successes under which it is given, and marked."""


def ttft_s(row: RequestRow) -> float | None:
    """Give the time from send() to the first non-empty payload."""
    if row.status != "ok" or row.first_payload_ns is None:
        return None
    return seconds(row.first_payload_ns - row.sent_ns)


def first_tokens_s(row: RequestRow) -> float | None:
    """Give the time from send() to the first event with generated token ids."""
    if row.status != "ok" or row.first_tokens_ns is None:
        return None
    return seconds(row.first_tokens_ns - row.sent_ns)


def e2e_s(row: RequestRow) -> float | None:
    """Give the time from send() to the last event with payload or finish_reason."""
    if row.status != "ok" or row.last_payload_ns is None:
        return None
    return seconds(row.last_payload_ns - row.sent_ns)


def tpot_s(row: RequestRow) -> float | None:
    """Give (E2E - TTFT) / (completion_tokens - 1), from exact usage.

    None where first and last payload share a stamp: in one read, they tell no time between them.
    """
    first, last = ttft_s(row), e2e_s(row)
    if first == last:
        return None
    if first is None or last is None or row.completion_tokens is None or row.completion_tokens < 2:  # noqa: PLR2004 - a rate needs two tokens
        return None
    return (last - first) / (row.completion_tokens - 1)


def ttft_scheduled_s(row: RequestRow) -> float | None:
    """Give the time from the scheduled instant to the first non-empty payload."""
    if row.status != "ok" or row.first_payload_ns is None or row.scheduled_ns is None:
        return None
    return seconds(row.first_payload_ns - row.scheduled_ns)


def e2e_scheduled_s(row: RequestRow) -> float | None:
    """Give the time from the scheduled instant to the last event with payload or finish_reason."""
    if row.status != "ok" or row.last_payload_ns is None or row.scheduled_ns is None:
        return None
    return seconds(row.last_payload_ns - row.scheduled_ns)


def achieved_concurrency(rows: Sequence[RequestRow], concurrency: int) -> float | None:
    """Give the time mean of requests in flight from the c-th send to the last send.

    None when there is no such span: fewer sends than the concurrency, or all at once.
    """
    sends = sorted(row.sent_ns for row in rows)
    if len(sends) <= concurrency:
        return None
    start, end = sends[concurrency - 1], sends[-1]
    if end <= start:
        return None
    busy_ns = sum(max(min(row.ended_ns, end) - max(row.sent_ns, start), 0) for row in rows)
    return busy_ns / (end - start)


def summarise(rows: Sequence[RequestRow], concurrency: int | None) -> CellSummary:
    """Give the numbers of a window, withheld where a rule says so.

    An open load has no concurrency.
    """
    # The span of an open load begins with its first send.
    from_send = concurrency or 1
    good = [row for row in rows if row.status == "ok"]
    counted = [row.completion_tokens for row in good if row.completion_tokens is not None]
    # One success without usage withholds the throughput: its tokens are unknown.
    tokens = sum(counted) if len(counted) == len(good) else None
    first_ns = min(row.sent_ns for row in rows)
    ends = [row.last_payload_ns for row in good if row.last_payload_ns is not None]
    duration_s = seconds(max(ends) - first_ns) if ends else 0.0
    ttft, tpot, e2e, ttft_due, e2e_due = (
        [v for r in good if (v := f(r)) is not None]
        for f in (ttft_s, tpot_s, e2e_s, ttft_scheduled_s, e2e_scheduled_s)
    )
    events = sum(len(row.event_ns) for row in good)
    return CellSummary(
        requests=len(rows),
        successes=len(good),
        duration_s=duration_s,
        output_tokens=tokens,
        output_throughput=tokens / duration_s if tokens is not None and duration_s else None,
        steady_throughput=_steady_throughput(good, rows, from_send),
        achieved_concurrency=achieved_concurrency(rows, from_send),
        ttft_p50_s=quantile(ttft, 0.5),
        ttft_p95_s=quantile(ttft, 0.95),
        ttft_p99_s=quantile(ttft, 0.99),
        tpot_p50_s=quantile(tpot, 0.5),
        tpot_p95_s=quantile(tpot, 0.95),
        tpot_p99_s=quantile(tpot, 0.99),
        e2e_p50_s=quantile(e2e, 0.5),
        e2e_p95_s=quantile(e2e, 0.95),
        e2e_p99_s=quantile(e2e, 0.99),
        ttft_scheduled_p50_s=quantile(ttft_due, 0.5),
        ttft_scheduled_p95_s=quantile(ttft_due, 0.95),
        ttft_scheduled_p99_s=quantile(ttft_due, 0.99),
        e2e_scheduled_p50_s=quantile(e2e_due, 0.5),
        e2e_scheduled_p95_s=quantile(e2e_due, 0.95),
        e2e_scheduled_p99_s=quantile(e2e_due, 0.99),
        p95_weak=len(good) < WEAK_BELOW[0.95],
        p99_weak=len(good) < WEAK_BELOW[0.99],
        tokens_per_event=tokens / events if tokens is not None and events else None,
        events=events,
        merged_events=sum(row.merged_events for row in good),
    )


def quantile(values: Sequence[float], share: float) -> float | None:
    """Give a linearly interpolated percentile, or None where too few values carry it."""
    if not values or len(values) < WITHHELD_BELOW.get(share, 1):
        return None
    return float(np.quantile(values, share))


def gates(
    rows: Sequence[RequestRow], concurrency: int | None, required: Gates
) -> tuple[Verdict, ...]:
    """Rule on the declared validity of a window."""
    rate = sum(row.status == "ok" for row in rows) / len(rows)
    success = Verdict(
        gate="success_rate",
        outcome="pass" if rate >= required.success_rate else "fail",
        observed=f"{rate:.4f}",
        required=f">= {required.success_rate}",
        advice=_failures(rows),
    )
    if concurrency is None:
        return success, _achieved_rate(rows, required)
    achieved = achieved_concurrency(rows, concurrency)
    if achieved is None:
        held = Verdict(
            gate="achieved_concurrency",
            outcome="undecided",
            observed="no span between the c-th and the last send",
            required=f">= {required.achieved_concurrency} x {concurrency}",
            advice="send more requests than the concurrency",
        )
    else:
        share = achieved / concurrency
        held = Verdict(
            gate="achieved_concurrency",
            outcome="pass" if share >= required.achieved_concurrency else "fail",
            observed=f"{achieved:.2f} of {concurrency}",
            required=f">= {required.achieved_concurrency} x {concurrency}",
        )
    return success, held


def _achieved_rate(rows: Sequence[RequestRow], required: Gates) -> Verdict:
    """Rule whether an open load was sent as fast as it was scheduled."""
    scheduled = [row.scheduled_ns for row in rows if row.scheduled_ns is not None]
    asked_ns = max(scheduled) - min(scheduled) if scheduled else 0
    # Later turns of conversations have no schedule: they follow their answers.
    sends = [row.sent_ns for row in rows if row.scheduled_ns is not None]
    sent_ns = max(sends) - min(sends) if sends else 0
    share = asked_ns / sent_ns if sent_ns else 0.0
    return Verdict(
        gate="achieved_rate",
        outcome="pass" if share >= required.achieved_rate else "fail",
        observed=f"{share:.4f} of the scheduled rate",
        required=f">= {required.achieved_rate}",
    )


def same_prompts(counts: dict[int, int], size: int) -> Verdict | None:
    """Rule whether a stratum's load points send the same prompts.

    `counts` gives the requests of each concurrency, `size` the prompts of the stratum. A load point
    that sends only some of them is not comparable with one that sends all.
    """
    reached = {concurrency: min(count, size) for concurrency, count in counts.items()}
    if len(set(reached.values())) < 2:  # noqa: PLR2004 - nothing to compare
        return None
    shown = ", ".join(f"{count} at c={concurrency}" for concurrency, count in reached.items())
    return Verdict(
        gate="same_prompts",
        outcome="undecided",
        observed=f"distinct prompts: {shown}",
        required="the same prompts at every load point",
        advice="ratios are fair at each load point, but not comparable between them",
    )


def rejected(verdicts: Sequence[Verdict]) -> bool:
    """Tell whether a failed gate keeps the cell out of every average."""
    return any(verdict.outcome == "fail" for verdict in verdicts)


def _steady_throughput(
    good: Sequence[RequestRow], rows: Sequence[RequestRow], concurrency: int
) -> float | None:
    """Give tokens that arrived from the c-th to the last send, over that span."""
    sends = sorted(row.sent_ns for row in rows)
    if len(sends) <= concurrency:
        return None
    start, end = sends[concurrency - 1], sends[-1]
    tokens = 0
    for row in good:
        for stamp, count in zip(row.event_ns, row.event_tokens, strict=True):
            if count is None:
                return None
            if start <= stamp < end:
                tokens += count
    return tokens / seconds(end - start) if end > start else None


def _failures(rows: Sequence[RequestRow]) -> str:
    failed = [row for row in rows if row.status != "ok"]
    if not failed:
        return ""
    return f"{len(failed)} failed, first: {failed[0].status}: {failed[0].error}"
