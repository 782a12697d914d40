"""What a step with speculation costs, and how much acceptance pays for it. Pure.

A request in decoding gets its tokens step by step. Without speculation a step gives it one token;
with speculation it gives more and takes longer. The gain in TPOT is tokens a step / cost of a step,
so an arm breaks even where both are equal.

Steps of one request are known by the counters: of T tokens, A were accepted drafts and the others
the target's own, one a step. Accepted counts precede the cut at the end of an output (vLLM counts
them in the scheduler, vllm/v1/core/sched/scheduler.py, 0.11 to 0.33), so T - A is the least number
of steps and T / (T - A) bounds the tokens of a step from above. Where the counters show more steps,
these are taken.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import attrs

from specbench.analysis.effects import Role, geometric_mean
from specbench.analysis.intervals import Interval, mean_interval, t_interval

BATCH_TOLERANCE = 0.05
"""Realised batches within this share of one another count as equal."""


@attrs.frozen(kw_only=True)
class Window:
    """One cell of one deployment, as far as it bears on steps."""

    block: int
    arm: str
    role: Role
    stratum: str
    sampling: str
    concurrency: int | None
    arrival_rate: float | None
    excluded: str
    """Why it may not be used; empty when it may."""
    requests: int
    successes: int
    tokens: int | None
    """Completion tokens of the successes."""
    decode_s: float | None
    """E2E - TTFT, summed over the successes."""
    engine_steps: int | None
    """Steps of the engine that produced output, of any number of requests."""
    drafts: int | None
    accepted: int | None
    tokens_per_step: float | None
    """T / (T - accepted)."""
    acceptance_length: float | None
    longest_draft: int | None


@attrs.frozen(kw_only=True)
class StepCost:
    """A decode step of an arm against one of the baseline, in one cell of one block."""

    block: int
    arm: str
    stratum: str
    sampling: str
    concurrency: int | None
    arrival_rate: float | None
    baseline_batch: float | None = None
    """Sequences that an engine step advanced."""
    arm_batch: float | None = None
    baseline_step_s: float | None = None
    """Decode time of requests / their decode steps."""
    arm_step_s: float | None = None
    cost: float | None = None
    """Arm / baseline: also the tokens a decode step at which the arm breaks even."""
    delivered_per_step: float | None = None
    """Tokens that a decode step delivered. Above the cost, TPOT is better than the baseline's."""
    drafted_share: float | None = None
    """Decode steps that verified a draft."""
    delivered_length: float | None = None
    """Acceptance length of what was delivered: 1 + delivered drafts / drafts."""
    break_even_length: float | None = None
    """Acceptance length at which TPOT would equal the baseline's, step cost and share as here."""
    bound: float | None = None
    """The lower of T / (T - accepted) and acceptance length: no gain in throughput can exceed it,
    unless a step with speculation were cheaper than one without."""
    ceiling: float | None = None
    """Gain if every step drafted its longest draft and all of it were accepted, at this cost."""
    withheld: str = ""
    """Why there is no cost."""


@attrs.frozen(kw_only=True)
class BreakEven:
    """Step costs of an arm in one cell, over blocks."""

    arm: str
    stratum: str
    sampling: str
    concurrency: int | None
    arrival_rate: float | None
    blocks: int
    cost: float | None
    """Geometric mean."""
    cost_interval: Interval | None
    delivered_per_step: float | None
    """Arithmetic mean, as the next three."""
    delivered_length: float | None
    break_even_length: float | None
    length_interval: Interval | None
    bound: float | None
    ceiling: float | None
    interval_note: str
    """Why there is no interval, or that it is wide."""
    missing: tuple[str, ...]
    """Blocks without a cost, and why."""


def tokens_per_step(tokens: float, steps: float) -> float:
    """Give the tokens that a step gave a request."""
    return tokens / steps


def step_s(tpot_s: float, per_step: float) -> float:
    """Give the seconds of a step from the seconds a token and the tokens of a step."""
    return tpot_s * per_step


def gain(per_step: float, cost: float) -> float:
    """Give how much better TPOT gets: the decomposition, exact for the same steps."""
    return per_step / cost


def break_even_length(cost: float, drafted_share: float) -> float:
    """Give the acceptance length at which the arm's TPOT equals the baseline's.

    A step gives 1 + share x (length - 1) tokens, and breaks even where that equals its cost. Where
    every step drafts it is the cost itself. Below 1, no acceptance is needed.
    """
    return 1 + (cost - 1) / drafted_share


def step_costs(windows: Iterable[Window]) -> tuple[StepCost, ...]:
    """Give the step cost of every arm in every cell, paired inside blocks."""
    cells: dict[tuple[object, ...], list[Window]] = defaultdict(list)
    for window in windows:
        cells[window.block, window.stratum, window.sampling].append(window)
    return tuple(
        _against(window, [w for w in found if w.role in ("baseline", "noise_floor")])
        for found in cells.values()
        for window in found
        if window.role == "arm"
    )


def break_evens(costs: Iterable[StepCost]) -> tuple[BreakEven, ...]:
    """Give the costs and break-even lengths over blocks, in the order of the costs."""
    cells: dict[tuple[object, ...], list[StepCost]] = defaultdict(list)
    for cost in costs:
        load = (cost.concurrency, cost.arrival_rate)
        cells[cost.arm, cost.stratum, cost.sampling, load].append(cost)
    return tuple(_over_blocks(found) for found in cells.values())


def sequence_steps(window: Window) -> int | None:
    """Give the steps of all requests of a window; None where they are not known.

    At least T - accepted; and each request has one of its prefill, each draft one. A single stream
    has exactly one request in every engine step.
    """
    if window.tokens is None or window.successes < window.requests:
        return None
    if window.concurrency == 1 and window.engine_steps is not None:
        return window.engine_steps
    own = window.tokens - (window.accepted or 0)
    return max(own, (window.drafts or 0) + window.successes)


def realised_batch(window: Window) -> float | None:
    """Give the sequences that an engine step advanced; None where nobody counted steps."""
    if window.concurrency == 1:
        return 1.0
    steps = sequence_steps(window)
    return steps / window.engine_steps if steps and window.engine_steps else None


def decode_step_s(window: Window) -> float | None:
    """Give the mean seconds of a decode step, as requests see it; prefill steps do not count."""
    steps = sequence_steps(window)
    if steps is None or window.decode_s is None or window.tokens is None:
        return None
    decoded, decode_steps = window.tokens - window.successes, steps - window.successes
    if decoded <= 0 or decode_steps <= 0 or window.decode_s <= 0:
        return None
    return step_s(window.decode_s / decoded, tokens_per_step(decoded, decode_steps))


def _against(window: Window, plain: Sequence[Window]) -> StepCost:
    bounds = [v for v in (window.tokens_per_step, window.acceptance_length) if v is not None]
    told = StepCost(
        block=window.block,
        arm=window.arm,
        stratum=window.stratum,
        sampling=window.sampling,
        concurrency=window.concurrency,
        arrival_rate=window.arrival_rate,
        arm_batch=realised_batch(window),
        arm_step_s=decode_step_s(window),
        bound=min(bounds) if bounds else None,
    )
    usable = [w for w in plain if not w.excluded and realised_batch(w) and decode_step_s(w)]
    reason = _withheld(window, told, usable)
    if reason:
        return attrs.evolve(told, withheld=reason)
    same = _same_batch(told.arm_batch or 0, usable)
    if not same:
        nearest = _nearest(told.arm_batch or 0, usable)
        return attrs.evolve(
            told,
            baseline_batch=nearest,
            withheld=f"a step advanced {told.arm_batch:.3g} sequences, the baseline's nearest "
            f"{nearest:.3g}: not within {BATCH_TOLERANCE:.0%}",
        )
    return _costed(told, window, same)


def _withheld(window: Window, told: StepCost, usable: Sequence[Window]) -> str:
    """Say why there is no cost, as far as it does not hang on the batch; nothing if there is."""
    reasons = {
        "the server counts no drafts": window.drafts is None,
        "nothing was drafted": window.drafts == 0,
        "a request failed, whose share of the steps is unknown": window.successes < window.requests,
        "no decode step with exact token counts": told.arm_step_s is None,
        "the server counts no steps, so that its batch is unknown": told.arm_batch is None,
        "no usable baseline": not usable,
    }
    return window.excluded or next((said for said, applies in reasons.items() if applies), "")


def _same_batch(batch: float, plain: Sequence[Window]) -> list[Window]:
    """Give the baseline's windows of equal batch, whatever their load."""
    return [w for w in plain if abs(batch / (realised_batch(w) or math.inf) - 1) <= BATCH_TOLERANCE]


def _nearest(batch: float, plain: Sequence[Window]) -> float:
    found = [value for w in plain if (value := realised_batch(w))]
    return min(found, key=lambda value: abs(math.log(value / batch)))


def _costed(told: StepCost, window: Window, same: Sequence[Window]) -> StepCost:
    steps, drafts = sequence_steps(window), window.drafts
    assert told.arm_step_s is not None
    assert window.tokens is not None
    assert steps
    assert drafts
    base = geometric_mean([value for w in same if (value := decode_step_s(w))])
    cost = told.arm_step_s / base
    decode_steps = steps - window.successes
    share = min(drafts / decode_steps, 1.0)
    return attrs.evolve(
        told,
        baseline_batch=statistics.fmean(v for w in same if (v := realised_batch(w))),
        baseline_step_s=base,
        cost=cost,
        delivered_per_step=tokens_per_step(window.tokens - window.successes, decode_steps),
        drafted_share=share,
        delivered_length=1 + (window.tokens - steps) / drafts,
        break_even_length=break_even_length(cost, share),
        ceiling=gain(window.longest_draft + 1, cost) if window.longest_draft else None,
    )


def _over_blocks(found: Sequence[StepCost]) -> BreakEven:
    known = [cost for cost in found if cost.cost is not None]
    costs = [cost.cost for cost in known if cost.cost is not None]
    lengths = list(_values(known, "break_even_length"))
    interval, note = t_interval([math.log(cost) for cost in costs])
    head = found[0]
    return BreakEven(
        arm=head.arm,
        stratum=head.stratum,
        sampling=head.sampling,
        concurrency=head.concurrency,
        arrival_rate=head.arrival_rate,
        blocks=len(known),
        cost=geometric_mean(costs) if costs else None,
        cost_interval=interval,
        delivered_per_step=_mean(known, "delivered_per_step"),
        delivered_length=_mean(known, "delivered_length"),
        break_even_length=_mean(known, "break_even_length"),
        length_interval=mean_interval(lengths),
        bound=_mean(found, "bound"),
        ceiling=_mean(known, "ceiling"),
        interval_note=note,
        missing=tuple(
            f"block {cost.block}: {cost.withheld}" for cost in found if cost.cost is None
        ),
    )


def _values(found: Sequence[StepCost], name: str) -> Iterator[float]:
    return (value for cost in found if (value := getattr(cost, name)) is not None)


def _mean(found: Sequence[StepCost], name: str) -> float | None:
    values = list(_values(found, name))
    return statistics.fmean(values) if values else None
