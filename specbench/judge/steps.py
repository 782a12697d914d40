"""The server's own histograms to how it spent a window. Pure.

Engine steps are the count of the histogram of tokens a step (vllm/v1/metrics/loggers.py, 0.11 to
0.33), so that steps which drafted nothing are seen too.
"""

from __future__ import annotations

import math

from specbench.facts import CounterDelta, CounterNames, CounterSnapshot, ServerSide


def server_side(
    before: CounterSnapshot,
    after: CounterSnapshot,
    names: CounterNames,
    delta: CounterDelta,
    *,
    duration_s: float,
    succeeded: int | None,
) -> ServerSide:
    """Give steps, batch and mean times of a window.

    Of T generated tokens, `accepted` came from drafts and the others are the target's own, one for
    each sequence that a step advanced. Accepted counts precede the cut at the end of an output, so
    the own tokens are at least T - accepted. Each request has one own token of its prefill, and
    each draft one: what is left went undrafted. `succeeded` is None where a request failed, whose
    share is not known.
    """
    steps = _passed(before, after, names.iterations)
    own = delta.generation_tokens - (delta.accepted_tokens or 0)
    known = succeeded is not None and delta.drafts is not None
    least = own - (delta.drafts or 0) - (succeeded or 0)
    whole_steps = round(steps) if steps is not None else None
    engines = max(len(delta.engines), 1)
    return ServerSide(
        engine_steps=whole_steps,
        realised_batch=own / whole_steps if whole_steps else None,
        step_s=duration_s * engines / whole_steps if whole_steps and duration_s else None,
        undrafted_least=max(least, 0) if known else None,
        queue_mean_s=_mean(before, after, names.queue),
        prefill_mean_s=_mean(before, after, names.prefill),
        decode_mean_s=_mean(before, after, names.decode),
    )


def _mean(before: CounterSnapshot, after: CounterSnapshot, histogram: str) -> float | None:
    """Give the mean of what a histogram took up in the window."""
    total = _passed(before, after, f"{histogram}_sum")
    count = _passed(before, after, f"{histogram}_count")
    return total / count if total is not None and count else None


def _passed(before: CounterSnapshot, after: CounterSnapshot, name: str) -> float | None:
    """Give how much a series grew, summed over engines; None unless each is known to."""
    earlier = {key: value for key, value in before.series.items() if key[0] == name}
    later = {key: value for key, value in after.series.items() if key[0] == name}
    if not later or earlier.keys() != later.keys():
        return None
    grown = [later[key] - earlier[key] for key in later]
    return sum(grown) if all(math.isfinite(part) and part >= 0 for part in grown) else None
