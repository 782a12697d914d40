"""The server's clock against ours: both timed the same tokens. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.facts import CounterNames, CounterSnapshot, RequestRow, Verdict
from specbench.judge.cells import tpot_s

WIDEST = 0.1
"""Largest share by which the server's mean time per output token may leave the client's.

On real vLLM the server's mean was 0.6 to 1.9% above the client's on an H200 (0.23.0: four arms, 104
requests each at concurrency 1, 8 and 32 together) and within 0.1% of it on a CPU (0.32.0: 16
windows of 6 requests). Ten percent is five times the worst of these.
"""


def agreement(
    before: CounterSnapshot,
    after: CounterSnapshot,
    names: CounterNames,
    rows: Sequence[RequestRow],
) -> Verdict | None:
    """Rule whether the server timed the window's tokens as the client did.

    Each side takes the mean over requests of (last token - first token) / (tokens - 1), and 0 for a
    request of one token, as vLLM does (vllm/v1/metrics/stats.py, 0.32). Never a failure: it does
    not tell whose clock is wrong, and no result of ours rests on the server's.

    None where the two means are not of the same requests, or there are none: no such series, no
    success, a success without usage, or another number of requests on each side. Only for windows
    whose counters nobody reset.
    """
    if names.tpot_sum is None or names.tpot_count is None:
        return None
    good = [row for row in rows if row.status == "ok"]
    count = _grown(before, after, names.tpot_count)
    if not good or count != len(good) or any(row.completion_tokens is None for row in good):
        return None
    ours = sum(tpot_s(row) or 0.0 for row in good) / len(good)
    theirs = _grown(before, after, names.tpot_sum) / count
    if not ours:
        return None
    agree = abs(theirs / ours - 1) <= WIDEST
    return Verdict(
        gate="server_clock",
        outcome="pass" if agree else "undecided",
        observed=f"TPOT {theirs * 1e3:.3f} ms by the server, {ours * 1e3:.3f} ms by the client",
        required=f"within {WIDEST:.0%} of each other",
        advice=(
            ""
            if agree
            else "the server's clock is off, or something between it and the client delays tokens: "
            "do not compare its latency histograms with these numbers"
        ),
    )


def _grown(before: CounterSnapshot, after: CounterSnapshot, name: str) -> float:
    """Give what a series did in the window, summed over engines."""
    return sum(
        value - before.series.get(key, 0.0) for key, value in after.series.items() if key[0] == name
    )
