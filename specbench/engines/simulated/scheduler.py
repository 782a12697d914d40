"""Continuous batching as vLLM's V1 scheduler does it: a state and its next step. Pure.

Running requests come first, then waiting ones; prompts enter in chunks within the token budget;
when KV runs out the youngest running request is preempted and computed anew
(vllm/v1/core/sched/scheduler.py, 0.32).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress
from typing import NamedTuple

import attrs
import numpy as np
from numpy.typing import NDArray

from specbench.engines.simulated.cost import CostModel, Load
from specbench.engines.simulated.drafting import Drafting
from specbench.engines.simulated.prefix_cache import PrefixCache
from specbench.engines.simulated.script import BLOCK_TOKENS, Script

Ints = NDArray[np.int64]


@attrs.frozen(kw_only=True, eq=False)
class Request:
    """One request inside the engine."""

    request_id: str
    script: Script
    blocks: tuple[int, ...] = ()
    """The prompt's blocks by number, for the prefix cache."""


class Waiting(NamedTuple):
    """A request that holds no KV. After a preemption some of its answer is already out."""

    request: Request
    generated: int = 0


def _none() -> Ints:
    return np.zeros(0, dtype=np.int64)


@attrs.frozen(kw_only=True, eq=False)
class State:
    """Everything that the scheduler knows. The arrays have a row for each running request."""

    waiting: tuple[Waiting, ...] = ()
    running: tuple[Request, ...] = ()
    todo: Ints = attrs.field(factory=_none)
    """Tokens still to be prefilled; 0 once the request decodes."""
    context: Ints = attrs.field(factory=_none)
    """Tokens whose KV is held."""
    generated: Ints = attrs.field(factory=_none)
    length: Ints = attrs.field(factory=_none)
    """Tokens of the whole answer."""
    cache: PrefixCache = attrs.field(factory=lambda: PrefixCache(capacity=0))

    @property
    def idle(self) -> bool:
        """Tell whether there is nothing to do."""
        return not self.waiting and not self.running

    def arrived(self, request: Request) -> State:
        """Give the state with one more request at the end of the queue."""
        return attrs.evolve(self, waiting=(*self.waiting, Waiting(request)))

    def without(self, request_ids: set[str]) -> State:
        """Give the state without these requests, whose clients went away."""
        waiting = tuple(w for w in self.waiting if w.request.request_id not in request_ids)
        stays = [request.request_id not in request_ids for request in self.running]
        return attrs.evolve(_rows(self, np.array(stays, dtype=bool)), waiting=waiting)


@attrs.frozen(kw_only=True)
class Rules:
    """What limits a step."""

    drafting: Drafting
    max_num_seqs: int
    max_scheduled_tokens: int
    kv_blocks: int


class Emission(NamedTuple):
    """What one request got out of one step."""

    request: Request
    first: int
    """Place of the first token in the answer."""
    tokens: int
    drafted: int
    accepted: int
    """Before the cut at the end of the answer, as vLLM counts."""
    ended: bool


class Admission(NamedTuple):
    """A request that left the queue."""

    request: Request
    cached_tokens: int
    again: bool
    """It was preempted before."""


@attrs.frozen(kw_only=True, eq=False)
class Step:
    """One step: how long it takes, and what stands when it is over."""

    duration_s: float
    state: State
    batch: tuple[Request, ...]
    """The rows of the arrays below."""
    first: Ints
    tokens: Ints
    drafted: Ints
    accepted: Ints
    ended: NDArray[np.bool_]
    prefilled: int
    """Prompt tokens computed."""
    admissions: tuple[Admission, ...]
    preempted: int

    def emissions(self) -> Iterator[Emission]:
        """Give what each request got, for those that got anything."""
        rows = zip(
            self.batch,
            self.first.tolist(),
            self.tokens.tolist(),
            self.drafted.tolist(),
            self.accepted.tolist(),
            self.ended.tolist(),
            strict=True,
        )
        return (Emission(*row) for row in rows if row[2])


def step(state: State, *, rules: Rules, cost: CostModel) -> Step:
    """Run one engine step."""
    depth = rules.drafting.depth_at(len(state.running))
    offered, right = _offers(state, depth)
    prefilling = state.todo > 0
    taken = _within(rules.max_scheduled_tokens, np.where(prefilling, state.todo, 1 + offered))
    fits = _fitting(state.context + taken, rules.kv_blocks)
    preempted = len(state.running) - fits
    if preempted:
        back = tuple(map(Waiting, state.running[fits:], state.generated[fits:].tolist()))
        rows = np.arange(len(state.running)) < fits
        state = attrs.evolve(_rows(state, rows), waiting=(*back, *state.waiting))
        taken = taken[:fits]
        admissions: tuple[Admission, ...] = ()
    else:
        state, taken, admissions = _admit(state, taken, rules)
    prefilling = state.todo > 0
    drafted = np.where(prefilling, 0, np.maximum(taken - 1, 0))
    # Those who came in this step have no draft, and those who were put back no turn.
    entered = np.zeros(max(len(taken) - len(right), 0), dtype=np.int64)
    accepted = np.minimum(np.concatenate((right, entered))[: len(taken)], drafted)
    todo = np.where(prefilling, state.todo - taken, 0)
    speaks = (taken > 0) & (todo == 0)
    tokens = np.where(speaks, np.minimum(1 + accepted, state.length - state.generated), 0)
    ended = speaks & (state.generated + tokens == state.length)
    after = State(
        waiting=state.waiting,
        running=state.running,
        todo=todo,
        context=state.context + np.where(prefilling, taken, tokens),
        generated=state.generated + tokens,
        length=state.length,
        cache=_stored(state, prefilling & (todo == 0)) if prefilling.any() else state.cache,
    )
    prefilled = int(taken[prefilling].sum())
    return Step(
        duration_s=cost.duration_s(
            Load(
                tokens=int(taken.sum()),
                requests=int(np.count_nonzero(~prefilling & (taken > 0))),
                context_tokens=int(state.context.sum()),
                draft_depth=int(drafted.max(initial=0)),
                drafted=int(drafted.sum()),
            )
        ),
        state=_rows(after, ~ended),
        batch=state.running,
        first=state.generated,
        tokens=tokens,
        drafted=drafted,
        accepted=accepted,
        ended=ended,
        prefilled=prefilled,
        admissions=admissions,
        preempted=preempted,
    )


def _admit(state: State, taken: Ints, rules: Rules) -> tuple[State, Ints, tuple[Admission, ...]]:
    """Take requests from the queue while seats, token budget and KV last."""
    if not state.waiting:
        return state, taken, ()
    budget = rules.max_scheduled_tokens - int(taken.sum())
    free = rules.kv_blocks - int(_blocks(state.context + taken).sum())
    seats = rules.max_num_seqs - len(state.running)
    todo, context, chunks = [], [], []
    admissions: list[Admission] = []
    for request, generated in state.waiting[:seats]:
        total = request.script.prompt_tokens + generated
        # The last token is always computed: its logits give the next one.
        hit = min(state.cache.hit(request.blocks) * BLOCK_TOKENS, total - 1)
        hit -= hit % BLOCK_TOKENS
        chunk = min(total - hit, budget)
        needed = -(-(hit + chunk) // BLOCK_TOKENS)
        if chunk <= 0 or needed > free:
            break
        budget, free = budget - chunk, free - needed
        todo.append(total - hit)
        context.append(hit)
        chunks.append(chunk)
        admissions.append(Admission(request, hit, generated > 0))
    count = len(admissions)
    if not count:
        return state, taken, ()
    entered = state.waiting[:count]
    grown = State(
        waiting=state.waiting[count:],
        running=(*state.running, *(one.request for one in entered)),
        todo=_with(state.todo, todo),
        context=_with(state.context, context),
        generated=_with(state.generated, [one.generated for one in entered]),
        length=_with(state.length, [one.request.script.length for one in entered]),
        cache=state.cache,
    )
    return grown, _with(taken, chunks), tuple(admissions)


def _with(values: Ints, more: list[int]) -> Ints:
    return np.concatenate((values, np.array(more, dtype=np.int64)))


def _offers(state: State, depth: int) -> tuple[Ints, Ints]:
    """Give the drafts offered at the places reached, and how much of each is right."""
    if not depth or not state.running:
        nothing = np.zeros_like(state.generated)
        return nothing, nothing
    places = zip(state.running, state.generated.tolist(), strict=True)
    said = [request.script.offers.at(place) for request, place in places]
    drafted, accepted = (np.array(one, dtype=np.int64) for one in zip(*said, strict=True))
    return np.minimum(drafted, depth), accepted


def _within(budget: int, wanted: Ints) -> Ints:
    """Give each row what it wants, in order, until the budget is spent."""
    if int(wanted.sum()) <= budget:
        return wanted
    before = np.cumsum(wanted) - wanted
    given: Ints = np.clip(budget - before, 0, wanted)
    return given


def _fitting(context: Ints, kv_blocks: int) -> int:
    """Give how many rows from the first hold no more blocks than there are."""
    if int(context.sum()) // BLOCK_TOKENS + len(context) <= kv_blocks:
        return len(context)
    return int(np.searchsorted(np.cumsum(_blocks(context)), kv_blocks, side="right"))


def _blocks(context: Ints) -> Ints:
    blocks: Ints = -(-context // BLOCK_TOKENS)
    return blocks


def _stored(state: State, prefilled: NDArray[np.bool_]) -> PrefixCache:
    cache = state.cache
    for row in np.flatnonzero(prefilled):
        cache = cache.store(state.running[row].blocks)
    return cache


def _rows(state: State, stays: NDArray[np.bool_]) -> State:
    """Give the state with the rows that stay."""
    if stays.all():
        return state
    return State(
        waiting=state.waiting,
        running=tuple(compress(state.running, stays.tolist())),
        todo=state.todo[stays],
        context=state.context[stays],
        generated=state.generated[stays],
        length=state.length[stays],
        cache=state.cache,
    )
