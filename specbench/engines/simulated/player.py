"""Plays the scheduler against the clock: every step ends at its deadline, never later on purpose.

A deadline is the one before it plus the step's duration, so lateness does not add up. Steps are
counted and their bytes made before they are due; at the deadline they are only written.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import attrs

from specbench.engines.simulated import log_places
from specbench.engines.simulated.answers import Answer, Ask
from specbench.engines.simulated.cost import CostModel
from specbench.engines.simulated.exposition import Exposition, FinishedRequest, StepFigures
from specbench.engines.simulated.faults import FATAL, Faults, due
from specbench.engines.simulated.front_end import FrontEnd
from specbench.engines.simulated.http_server import Reply, chunk
from specbench.engines.simulated.log_printer import Printer
from specbench.engines.simulated.prefix_cache import PrefixCache
from specbench.engines.simulated.presets import Preset
from specbench.engines.simulated.scheduler import Emission, Request, Rules, State, Step, step
from specbench.engines.simulated.script import BLOCK_TOKENS, Script, blocks, script
from specbench.engines.simulated.served import Served, Version
from specbench.engines.simulated.text import Deviation

SPIN_S = 0.0012
"""The event loop wakes to the millisecond; the rest is slept in one blocking call."""


@attrs.define
class _Live:
    """A request under way."""

    answer: Answer
    count: int
    """How many requests had come, this one included."""
    arrived_s: float
    scheduled_s: float = 0.0
    first_token_s: float = 0.0
    last_s: float = 0.0
    cached_tokens: int = 0
    preemptions: int = 0
    broken: bool = False
    """A fault ended what the client sees of it."""


@attrs.define(eq=False)
class _Engine:
    """One data-parallel rank."""

    state: State
    front: FrontEnd[Request] = attrs.field(factory=FrontEnd)
    gone: set[str] = attrs.field(factory=set)
    work: asyncio.Event = attrs.field(factory=asyncio.Event)
    load: int = 0


class Player:
    """Owns states and clock. Everything that decides is pure and elsewhere."""

    def __init__(
        self,
        served: Served,
        preset: Preset,
        rules: Rules,
        cost: CostModel,
        *,
        faults: Faults,
        seed: int,
        deviation: Deviation,
    ) -> None:
        self.served = served
        self.faults = faults
        self.started_unix_s = time.time()
        self.exposition = Exposition(served, started_unix_s=self.started_unix_s)
        self._preset = preset
        self._rules = rules
        self._cost = cost
        self._seed = seed
        self._deviation = deviation
        held = rules.kv_blocks if served.prefix_caching else 0
        cold = State(cache=PrefixCache(capacity=held))
        self._engines = [_Engine(state=cold) for _ in range(served.data_parallel)]
        self._live: dict[str, _Live] = {}
        self._scripts: dict[tuple[object, ...], Script] = {}
        self._arrived = 0
        self._answered = 0

    def script(self, asked: Ask, request_id: str) -> Script:
        """Write the script of a request; the same one again for the same request."""
        noisy = self._deviation.noise_nats or self._deviation.swaps
        variant = request_id if noisy else ""
        key = (asked.prompt, asked.max_tokens, asked.ignore_eos, asked.sampled, variant)
        if key not in self._scripts:
            self._scripts[key] = script(
                asked.prompt,
                cap=asked.max_tokens,
                seed=self._seed,
                habits=self._preset.habits,
                drafting=self._rules.drafting,
                deviation=attrs.evolve(self._deviation, seed=f"{self._deviation.seed}/{variant}"),
                ignore_eos=asked.ignore_eos,
                sampled=asked.sampled,
            )
        return self._scripts[key]

    def submit(self, answer: Answer) -> None:
        """Take a request in. It goes to the engine that has least to do."""
        self._arrived += answer.reply is not None
        number, engine = min(enumerate(self._engines), key=lambda pair: pair[1].load)
        now_s = time.monotonic()
        live = _Live(answer=answer, count=self._arrived, arrived_s=now_s)
        self._live[answer.request_id] = live
        request = Request(
            request_id=answer.request_id,
            script=answer.script,
            blocks=blocks(answer.script.prompt, answer.asked.salt),
        )
        cost_s = self._cost.front_token_s * answer.script.prompt_tokens
        engine.front = engine.front.arrived(request, cost_s=cost_s, now_s=now_s)
        engine.load += 1
        engine.work.set()
        self._tell_gauges(number)
        if answer.reply is not None:
            answer.reply.on_lost = partial(self._forget, engine, answer.request_id)
            if due(self.faults.foreign_every, live.count):
                self._submit_foreign(answer)

    async def play(self, number: int) -> None:
        """Run the steps of one engine for ever."""
        engine = self._engines[number]
        while True:
            await engine.work.wait()
            due_s = time.monotonic()
            while engine.state.waiting or engine.state.running or engine.front.batch:
                due_s = await self._next(number, engine, due_s)
            engine.work.clear()

    async def _next(self, number: int, engine: _Engine, due_s: float) -> float:
        """Run one step, or wait for what the front end still holds."""
        engine.front, passed = engine.front.passed(due_s)
        for request in passed:
            engine.state = engine.state.arrived(request)
        if engine.gone:
            engine.state, engine.gone = engine.state.without(engine.gone), set()
            self._tell_gauges(number)
        if engine.state.idle:
            if engine.front.batch:
                await _until(engine.front.ready_s)
            return max(engine.front.ready_s, due_s)
        began_s = due_s
        taken = step(engine.state, rules=self._rules, cost=self._cost)
        due_s += taken.duration_s
        outputs = [
            (live, emission)
            for emission in taken.emissions()
            if (live := self._live.get(emission.request.request_id)) is not None
        ]
        ready = [
            (live.answer.reply, self._bytes(live.answer.reply, live, emission))
            for live, emission in outputs
            if live.answer.reply is not None and not live.broken
        ]
        if self.faults.split_events:
            ready = _in_two_pieces(ready)
        await _until(due_s)
        written_s = write_out(ready)
        engine.state = taken.state
        self.exposition.late(number, written_s - due_s)
        for live, emission in outputs:
            self._after(engine, live, emission)
        self._account(number, engine, taken, outputs, began_s=began_s, ended_s=due_s)
        if self.faults.hang_after and self._answered >= self.faults.hang_after:
            await asyncio.Event().wait()
        return due_s

    def _bytes(self, reply: Reply, live: _Live, emission: Emission) -> bytes:
        """Give what a step's tokens are on the wire."""
        answer = live.answer
        if self.served.request_metrics != "none":
            answer.took(emission)
        if not answer.asked.stream:
            return reply.answer(200, answer.whole()) if emission.ended else b""
        event = answer.event(emission)
        if due(self.faults.malformed_every, live.count) and emission.first == 0:
            event += b'data: {"choices":[{\n\n'
        if emission.ended:
            usage = not due(self.faults.lost_usage_every, live.count)
            event += answer.end(usage=usage)
        head = b"" if emission.first else reply.begin()
        return head + chunk(event, last=emission.ended)

    def _after(self, engine: _Engine, live: _Live, emission: Emission) -> None:
        """Close what ended, or break a stream after its first tokens if a fault says so."""
        reply, faults = live.answer.reply, self.faults
        if reply is None or live.broken:
            return
        if emission.ended:
            reply.end()
        elif emission.first == 0 and live.answer.asked.stream:
            if due(faults.stream_error_every, live.count):
                reply.end(chunk(live.answer.failure(), last=True))
            elif due(faults.reset_every, live.count):
                reply.reset()
            live.broken = reply.ended or due(faults.stall_every, live.count)
            if reply.ended:
                self._forget(engine, live.answer.request_id)

    def _account(
        self,
        number: int,
        engine: _Engine,
        taken: Step,
        outputs: list[tuple[_Live, Emission]],
        *,
        began_s: float,
        ended_s: float,
    ) -> None:
        """Count a step as vLLM counts it."""
        for admission in taken.admissions:
            live = self._live.get(admission.request.request_id)
            if live is not None and not admission.again:
                live.scheduled_s, live.cached_tokens = began_s, admission.cached_tokens
            if not admission.again:
                self._tell(
                    self.exposition.admitted,
                    number,
                    prompt_tokens=admission.request.script.prompt_tokens,
                    cached_tokens=admission.cached_tokens,
                )
        gaps: dict[float, int] = {}
        for live, emission in outputs:
            if emission.first == 0:
                live.first_token_s = ended_s
                self._tell(
                    self.exposition.first_token, number, self._told_s(ended_s - live.arrived_s)
                )
            else:
                gap_s = self._told_s(ended_s - live.last_s)
                gaps[gap_s] = gaps.get(gap_s, 0) + 1
            live.last_s = ended_s
        self._tell(self.exposition.stepped, number, self._figures(engine, taken, gaps))
        for live, emission in outputs:
            if emission.ended:
                self._finished(number, engine, live, ended_s)
        self._tell_gauges(number)

    def _figures(self, engine: _Engine, taken: Step, gaps: Mapping[float, int]) -> StepFigures:
        deepest = int(taken.accepted.max(initial=0))
        return StepFigures(
            running=len(engine.state.running),
            waiting=len(engine.state.waiting),
            kv_usage=self._kv_usage(engine),
            prompt_tokens=taken.prefilled,
            tokens=int(taken.tokens.sum()),
            drafts=int((taken.drafted > 0).sum()),
            drafted=int(taken.drafted.sum()),
            accepted=int(taken.accepted.sum()),
            accepted_at=tuple(int((taken.accepted > place).sum()) for place in range(deepest)),
            preemptions=taken.preempted,
            gaps_s=tuple(gaps.items()),
        )

    def _finished(self, number: int, engine: _Engine, live: _Live, ended_s: float) -> None:
        answer = live.answer
        self._live.pop(answer.request_id, None)
        engine.load -= 1
        self._answered += answer.reply is not None
        figures = FinishedRequest(
            arrived_s=0.0,
            scheduled_s=self._told_s(live.scheduled_s - live.arrived_s),
            first_token_s=self._told_s(live.first_token_s - live.arrived_s),
            ended_s=self._told_s(ended_s - live.arrived_s),
            prompt_tokens=answer.script.prompt_tokens,
            cached_tokens=live.cached_tokens,
            generated_tokens=answer.script.length,
            max_tokens=answer.asked.max_tokens,
            reason=answer.script.finish_reason,
            preemptions=live.preemptions,
        )
        self._tell(self.exposition.finished, number, figures)
        if self._answered == self.faults.reset_counters_after:
            self.exposition = Exposition(self.served, started_unix_s=self.started_unix_s)
        if self._answered == self.faults.restart_engine_after:
            self.exposition.restart_engine(self.served.data_parallel - 1)
        if self._answered == self.faults.crash_after:
            _crash(self.served.version)

    def _submit_foreign(self, ours: Answer) -> None:
        request_id = f"foreign-{self._arrived}"
        self.submit(
            Answer(
                self.served,
                ours.asked,
                ours.script,
                request_id=request_id,
                created=int(self.started_unix_s),
                reply=None,
            )
        )

    def _forget(self, engine: _Engine, request_id: str) -> None:
        """Drop a request whose client went away."""
        if self._live.pop(request_id, None) is not None:
            engine.gone.add(request_id)
            engine.load -= 1
            engine.work.set()

    def _tell(self, what: Callable[..., None], *figures: object, **more: object) -> None:
        """Count something now, or later where the counters lag."""
        if self.faults.late_counters_s:
            later = partial(what, *figures, **more)
            asyncio.get_running_loop().call_later(self.faults.late_counters_s, later)
        else:
            what(*figures, **more)

    def _tell_gauges(self, number: int) -> None:
        engine = self._engines[number]
        running = len(engine.state.running)
        self.exposition.gauges(
            number,
            running=running,
            waiting=max(engine.load - running, 0),
            kv_usage=self._kv_usage(engine),
        )

    def _kv_usage(self, engine: _Engine) -> float:
        held = int(engine.state.context.sum()) / BLOCK_TOKENS
        return min(held / self._rules.kv_blocks, 1.0)

    def _told_s(self, duration_s: float) -> float:
        """Give a duration as the server's own clock has it."""
        return duration_s * (1 + self.faults.clock_drift)


def write_out(
    ready: Iterable[tuple[Reply, bytes]], now_s: Callable[[], float] = time.monotonic
) -> float:
    """Write what a step gives, and tell when its last piece went out.

    That is read before the call: bytes are with their reader while it returns, and a reader that
    wakes up may have the processor for the next milliseconds.
    """
    written_s = now_s()
    for reply, data in ready:
        written_s = now_s()
        reply.send(data)
    return written_s


def _in_two_pieces(ready: list[tuple[Reply, bytes]]) -> list[tuple[Reply, bytes]]:
    """Cut what is sent, with everybody's first piece before anybody's second."""
    firsts = [(reply, data[: len(data) // 2]) for reply, data in ready]
    return firsts + [(reply, data[len(data) // 2 :]) for reply, data in ready]


async def _until(due_s: float) -> None:
    """Wait for an instant of the monotonic clock, to a tenth of a millisecond."""
    rest_s = due_s - time.monotonic()
    # Even a late step lets the sockets have their turn.
    await asyncio.sleep(max(rest_s - SPIN_S, 0))
    rest_s = due_s - time.monotonic()
    if rest_s > 0:
        time.sleep(min(rest_s, SPIN_S))  # noqa: ASYNC251 - shorter than the loop can wait


def _crash(version: Version) -> None:
    """End as an engine does whose accelerator failed."""
    printer = Printer(version=version, pid=os.getpid(), clock=time.time, process="EngineCore")
    for line in FATAL:
        sys.stderr.write(f"{printer(log_places.FAILED, line, 'ERROR')}\n")
    sys.stderr.flush()
    sys.stdout.flush()
    os._exit(1)
