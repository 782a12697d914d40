"""The scheduler in virtual time: a whole window in as long as it takes to count it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import inf

import attrs
import numpy as np

from specbench.engines.simulated.cost import CostModel
from specbench.engines.simulated.front_end import FrontEnd
from specbench.engines.simulated.scheduler import Request, Rules, State, Step, step
from specbench.facts import Acceptance, RequestRow
from specbench.units import nanoseconds


@attrs.frozen(kw_only=True)
class VirtualWindow:
    """What a client would have seen, and what the counters would have said."""

    rows: tuple[RequestRow, ...]
    """In the order of the requests. They hold no event stamps."""
    acceptance: Acceptance | None
    """None without speculation."""
    preempted: int
    cached_tokens: int
    duration_s: float
    state: State
    """What the engine still holds: pass it on to go on with a warm prefix cache."""


@attrs.define
class _Times:
    sent_s: float
    first_s: float = 0.0
    last_s: float = 0.0


def closed_loop(
    requests: Sequence[Request],
    *,
    concurrency: int,
    rules: Rules,
    cost: CostModel,
    state: State | None = None,
) -> VirtualWindow:
    """Send the requests, `concurrency` in flight at any time. The client costs no time."""
    return _play(requests, None, concurrency, rules, cost, state or State())


def open_loop(
    requests: Sequence[Request],
    *,
    arrivals_s: Sequence[float],
    rules: Rules,
    cost: CostModel,
    state: State | None = None,
) -> VirtualWindow:
    """Send each request at its instant, in seconds from the start, whatever is in flight.

    Raises:
        ValueError: The instants do not rise, or are not one for each request.
    """
    if len(arrivals_s) != len(requests) or any(b < a for a, b in pairwise(arrivals_s)):
        raise ValueError("arrivals_s must rise and hold one instant for each request")
    return _play(requests, arrivals_s, len(requests), rules, cost, state or State())


def _play(
    requests: Sequence[Request],
    arrivals_s: Sequence[float] | None,
    concurrency: int,
    rules: Rules,
    cost: CostModel,
    state: State,
) -> VirtualWindow:
    times: dict[str, _Times] = {}
    counted = _Counted()
    front: FrontEnd[Request] = FrontEnd()
    now_s, sent, done = 0.0, 0, 0
    while done < len(requests):
        while sent < len(requests) and sent - done < concurrency:
            due_s = now_s if arrivals_s is None else arrivals_s[sent]
            if due_s > now_s:
                break
            request = requests[sent]
            times[request.request_id] = _Times(sent_s=due_s)
            front_s = cost.front_token_s * request.script.prompt_tokens
            front = front.arrived(request, cost_s=front_s, now_s=due_s)
            sent += 1
        front, passed = front.passed(now_s)
        for request in passed:
            state = state.arrived(request)
        if state.idle:
            now_s = _next_s(front, arrivals_s[sent] if arrivals_s and sent < len(requests) else inf)
            continue
        taken = step(state, rules=rules, cost=cost)
        state = taken.state
        now_s += taken.duration_s
        counted.take(taken)
        begun = (taken.tokens > 0) & (taken.first == 0)
        for row in np.flatnonzero(begun | taken.ended).tolist():
            if taken.first[row] == 0:
                times[taken.batch[row].request_id].first_s = now_s
            if taken.ended[row]:
                times[taken.batch[row].request_id].last_s = now_s
                done += 1
    return VirtualWindow(
        rows=tuple(
            _row(request, index, times[request.request_id])
            for index, request in enumerate(requests)
        ),
        acceptance=counted.acceptance(rules.drafting.depth),
        preempted=counted.preempted,
        cached_tokens=counted.cached_tokens,
        duration_s=now_s,
        state=state,
    )


def _next_s(front: FrontEnd[Request], arrival_s: float) -> float:
    return min(front.ready_s, arrival_s) if front.batch else arrival_s


@attrs.define
class _Counted:
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0
    preempted: int = 0
    cached_tokens: int = 0
    reached: list[int] = attrs.field(factory=list)

    def take(self, taken: Step) -> None:
        self.preempted += taken.preempted
        self.cached_tokens += sum(one.cached_tokens for one in taken.admissions)
        if not taken.drafted.any():
            return
        self.drafts += int((taken.drafted > 0).sum())
        self.drafted += int(taken.drafted.sum())
        self.accepted += int(taken.accepted.sum())
        deepest = int(taken.accepted.max())
        self.reached += [0] * (deepest - len(self.reached))
        for place in range(deepest):
            self.reached[place] += int((taken.accepted > place).sum())

    def acceptance(self, depth: int) -> Acceptance | None:
        if not depth:
            return None
        return Acceptance(
            drafts=self.drafts,
            drafted=self.drafted,
            accepted=self.accepted,
            per_position=tuple(self.reached + [0] * (depth - len(self.reached))),
            source="counters",
        )


def _row(request: Request, index: int, times: _Times) -> RequestRow:
    last_ns = nanoseconds(times.last_s)
    return RequestRow(
        request_id=request.request_id,
        index=index,
        prompt_id=request.request_id,
        pass_index=0,
        called_ns=nanoseconds(times.sent_s),
        sent_ns=nanoseconds(times.sent_s),
        first_payload_ns=nanoseconds(times.first_s),
        last_payload_ns=last_ns,
        ended_ns=last_ns,
        status="ok",
        finish_reason=request.script.finish_reason,
        prompt_tokens=request.script.prompt_tokens,
        completion_tokens=request.script.length,
    )
