"""The two loops that send requests: so many in flight, or each at its own instant.

Everything in a window is a callback on the event loop: the end of one response sends the next
request, without a task to be woken in between.
"""

from __future__ import annotations

import asyncio
import gc
import time
from abc import ABC, abstractmethod
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import anyio
import attrs
from anyio.abc import TaskGroup

from specbench.experiment.load import Timeouts
from specbench.facts import RequestRow
from specbench.traffic.absolute_timer import AbsoluteTimer
from specbench.traffic.address import Address
from specbench.traffic.connection import Connection, Reading
from specbench.traffic.exchange import Exchange
from specbench.traffic.parts import Part
from specbench.traffic.requests import TimedRequest, following
from specbench.traffic.stream import connection, usable_clock
from specbench.traffic.watched_sockets import Gathering, WatchedSockets
from specbench.units import NS_PER_S, seconds

OnRow = Callable[[RequestRow], None]
Stop = Callable[[], bool]
LEAD_NS = 50_000_000
"""From the call to an open load's first instant: connections and timer are ready by then."""
AWAKE_NS = 200_000
"""Before its instant an open load's request is waited for awake: about what waking up takes, with
the reads that are ready just then."""
SPARE = 16
"""Idle connections below which an open load opens more."""
HEARTBEAT_NS = 5_000_000
OPENING_AT_ONCE = 128
"""Connections opened at the same time: more overflow a server's queue of new ones."""
_now = time.perf_counter_ns


@attrs.frozen(kw_only=True)
class LoadPoint:
    """How requests go to a server: so many in flight, or each at its instant."""

    base_url: str
    timeouts: Timeouts
    concurrency: int | None
    """None under an open load."""
    arrivals_ns: tuple[int, ...] = ()
    max_in_flight: int | None = None
    """Most connections of an open load."""
    processes: int = 1


def driver(
    requests: Sequence[TimedRequest],
    asked: LoadPoint,
    on_row: OnRow | None = None,
    stop: Stop = lambda: False,
) -> Drive:
    """Give the drive of one client process."""
    kind = OpenDrive if asked.concurrency is None else ClosedDrive
    return kind(requests, asked, on_row, stop)


class Drive(ABC):
    """One client process's drive of some requests."""

    def __init__(
        self,
        requests: Sequence[TimedRequest],
        asked: LoadPoint,
        on_row: OnRow | None = None,
        stop: Stop = lambda: False,
    ) -> None:
        self._requests = requests
        self._asked = asked
        address = Address.of(asked.base_url)
        clock = usable_clock(address)
        # An open load's timer would wait with the reads, and so would a stamp of our own.
        gathers = clock == "kernel" and asked.concurrency is not None
        watched = WatchedSockets(Gathering() if gathers else None)
        self._reading = Reading(address, asked.timeouts, clock, watched)
        self._on_row = on_row
        self._stop = stop
        self._connections: list[Connection] = []
        self._finished: deque[Exchange] = deque()
        self._dispatch_ns: array[int] = array("q")
        self._loop_lag_ns: array[int] = array("q")
        self._beat_ns = self._renewed_ns = 0
        self._heart: AbsoluteTimer | None = None
        self._in_flight = 0
        self._over = self._growing = False
        self._done = anyio.Event()
        self._group: TaskGroup

    async def prepare(self) -> None:
        """Open connections before the first send. A refusal shows again when one is used."""
        limiter = anyio.CapacityLimiter(OPENING_AT_ONCE)

        async def opened(one: Connection) -> None:
            async with limiter:
                with suppress(OSError):
                    await one.open()

        async with anyio.create_task_group() as group:
            for _ in range(self._first_connections()):
                self._connections.append(connection(self._reading))
                group.start_soon(opened, self._connections[-1])

    async def run(self, start_ns: int | None = None) -> Part:
        """Drive, from an instant on when one is given, and give what was measured."""
        try:
            if not self._connections:
                await self.prepare()
            # Garbage is collected before a window, not within it: the young, because looking at
            # everything that was ever loaded takes 30 to 80 ms, in which a warm server idles.
            gc.collect(1)
            gc.disable()
            if start_ns is not None:
                await anyio.sleep(max(seconds(start_ns - _now()), 0))
            self._reading.offset.renew()
            self._reading.offset.step_ns = 0
            started_unix_s, cpu_s, started_ns = time.time(), time.process_time(), _now()
            self._renewed_ns = started_ns
            self._beat_ns = started_ns + HEARTBEAT_NS
            self._heart = AbsoluteTimer(self._beat)
            self._heart.at(self._beat_ns)
            async with anyio.create_task_group() as group:
                self._group = group
                self._begin(start_ns or started_ns)
                if not self._is_done():
                    await self._done.wait()
                if self._growing:
                    # Only then: what a cancellation leaves behind holds all of this in a cycle.
                    group.cancel_scope.cancel()
            if not self._loop_lag_ns:
                # A window shorter than a beat: it is as late as it is now.
                self._loop_lag_ns.append(max(_now() - self._beat_ns, 0))
            cpu_s = time.process_time() - cpu_s
            self._reading.offset.renew()
            share = cpu_s / max(seconds(_now() - started_ns), 1e-9)
        finally:
            gc.enable()
            # What closing ends is lost, and starts nothing.
            self._over = True
            if self._heart is not None:
                self._heart.close()
                # It calls this drive: a cycle would keep every sample until garbage is collected.
                self._heart = None
            for one in self._connections:
                one.close()
        return self._part(started_unix_s, share)

    @abstractmethod
    def _first_connections(self) -> int:
        """Give how many connections to open before the first send."""

    @abstractmethod
    def _begin(self, start_ns: int) -> None:
        """Send the first requests."""

    @abstractmethod
    def _is_done(self) -> bool:
        """Tell whether nothing more is to be sent, nor in flight."""

    @abstractmethod
    def _freed(self, one: Connection, ended_ns: int) -> None:
        """Use a connection that has become free."""

    def _start(
        self, one: Connection, request: TimedRequest, due_ns: int, scheduled_ns: int | None
    ) -> None:
        """Send a request over a connection, opened first when it has closed."""
        self._in_flight += 1
        exchange = Exchange(request, partial(self._ended, one), _now(), scheduled_ns)
        if one.is_open:
            one.start(exchange)
            self._dispatch_ns.append(exchange.sent_ns - due_ns)
        else:
            self._group.start_soon(self._reopened, one, exchange, due_ns)

    async def _reopened(self, one: Connection, exchange: Exchange, due_ns: int) -> None:
        try:
            await one.open()
        except OSError as error:
            late = isinstance(error, TimeoutError)
            exchange.fail("timeout" if late else "connection_lost", f"cannot connect: {error}")
            exchange.sent_ns = exchange.called_ns
            exchange.end(_now())
        else:
            one.start(exchange)
            self._dispatch_ns.append(exchange.sent_ns - due_ns)

    def _ended(self, one: Connection, exchange: Exchange) -> None:
        if self._over:
            return
        self._in_flight -= 1
        self._finished.append(exchange)
        # A conversation keeps its connection. The next turn's bytes can only be made now: after the
        # last stamp of this response, and before the send() that the next one's times start at.
        answered = exchange.request.talk is not None and not self._stop()
        more = following(exchange.request, exchange.answer()) if answered else None
        if more is not None:
            self._start(one, more, exchange.ended_ns, None)
        else:
            self._freed(one, exchange.ended_ns)
        if self._on_row is not None:
            self._on_row(exchange.row())
        if self._is_done():
            self._done.set()

    def _beat(self) -> None:
        """Note how late this turn of the loop is, and each second whether a clock was set."""
        now_ns = _now()
        if now_ns - self._renewed_ns >= NS_PER_S:
            self._renewed_ns = now_ns
            self._reading.offset.renew()
        self._loop_lag_ns.append(max(now_ns - self._beat_ns, 0))
        self._beat_ns = now_ns + HEARTBEAT_NS
        if self._heart is not None:
            self._heart.at(self._beat_ns)

    def _part(self, started_unix_s: float, cpu_share: float) -> Part:
        reading = self._reading
        rows, outputs = [], []
        while self._finished:
            # One by one: a window of long streams is not held twice.
            exchange = self._finished.popleft()
            rows.append(exchange.row())
            outputs.append(exchange.output())
        return Part(
            rows=tuple(rows),
            outputs=tuple(outputs),
            clock=reading.clock,
            started_unix_s=started_unix_s,
            event_loop=type(asyncio.get_running_loop()).__module__.partition(".")[0],
            cpu_share=cpu_share,
            lag_ns=reading.lag_ns,
            loop_lag_ns=self._loop_lag_ns,
            dispatch_ns=self._dispatch_ns,
            unstamped_reads=reading.unstamped_reads,
            clock_error_ns=reading.offset.error_ns,
            clock_step_ns=reading.offset.step_ns if reading.clock == "kernel" else 0,
        )


class ClosedDrive(Drive):
    """A closed loop: the end of a response sends the next request."""

    def __init__(
        self,
        requests: Sequence[TimedRequest],
        asked: LoadPoint,
        on_row: OnRow | None = None,
        stop: Stop = lambda: False,
    ) -> None:
        super().__init__(requests, asked, on_row, stop)
        self._queue = iter(requests)
        self._exhausted = False

    def _first_connections(self) -> int:
        return self._asked.concurrency or 0

    def _begin(self, start_ns: int) -> None:
        del start_ns
        for one in self._connections:
            self._freed(one, _now())

    def _is_done(self) -> bool:
        return self._exhausted and not self._in_flight

    def _freed(self, one: Connection, ended_ns: int) -> None:
        request = None if self._exhausted or self._stop() else next(self._queue, None)
        if request is None:
            self._exhausted = True
        else:
            self._start(one, request, ended_ns, None)


class OpenDrive(Drive):
    """An open loop: requests go out at their instants, on an absolute timer.

    No request waits for another one, so that a slow server cannot slow its load down. Where the
    limit of connections makes one wait after all, its lateness counts from its instant.
    """

    def __init__(
        self,
        requests: Sequence[TimedRequest],
        asked: LoadPoint,
        on_row: OnRow | None = None,
        stop: Stop = lambda: False,
    ) -> None:
        super().__init__(requests, asked, on_row, stop)
        self._arrivals_ns = asked.arrivals_ns
        self._max_in_flight = asked.max_in_flight or len(requests)
        self._idle: list[Connection] = []
        self._waiting: deque[tuple[TimedRequest, int]] = deque()
        self._next = 0
        self._start_ns = 0
        self._timer: AbsoluteTimer
        # Reads that wait meanwhile lose nothing where the kernel stamps them.
        self._awake_ns = AWAKE_NS if self._reading.clock == "kernel" else 0

    def _first_connections(self) -> int:
        # A second's arrivals; more are opened while the load goes on.
        second = sum(instant < NS_PER_S for instant in self._arrivals_ns)
        return min(self._max_in_flight, max(second, SPARE))

    async def run(self, start_ns: int | None = None) -> Part:
        """Drive, from an instant on when one is given, and give what was measured."""
        self._timer = AbsoluteTimer(self._fire)
        try:
            return await super().run(start_ns)
        finally:
            self._timer.close()
            del self._timer

    def _begin(self, start_ns: int) -> None:
        # The same for all processes that start together: their schedules are one.
        self._start_ns = start_ns + LEAD_NS
        self._idle = list(self._connections)
        if self._arrivals_ns:
            self._timer.at(self._start_ns + self._arrivals_ns[0] - self._awake_ns)

    def _is_done(self) -> bool:
        return self._next >= len(self._arrivals_ns) and not self._in_flight and not self._waiting

    def _fire(self) -> None:
        """Send what is due."""
        if self._stop():
            self._arrivals_ns = self._arrivals_ns[: self._next]
            self._waiting.clear()
        while self._next < len(self._arrivals_ns):
            scheduled_ns = self._start_ns + self._arrivals_ns[self._next]
            if scheduled_ns - _now() > self._awake_ns:
                self._timer.at(scheduled_ns - self._awake_ns)
                break
            while _now() < scheduled_ns:
                pass
            self._arrive(self._requests[self._next], scheduled_ns)
            self._next += 1
        if self._is_done():
            self._done.set()

    def _arrive(self, request: TimedRequest, scheduled_ns: int) -> None:
        if self._idle:
            self._start(self._idle.pop(), request, scheduled_ns, scheduled_ns)
        elif len(self._connections) < self._max_in_flight:
            self._connections.append(connection(self._reading))
            self._start(self._connections[-1], request, scheduled_ns, scheduled_ns)
        else:
            self._waiting.append((request, scheduled_ns))
        if len(self._idle) < SPARE and not self._growing:
            self._growing = True
            self._group.start_soon(self._grow)

    def _freed(self, one: Connection, ended_ns: int) -> None:
        del ended_ns
        if self._waiting:
            request, scheduled_ns = self._waiting.popleft()
            self._start(one, request, scheduled_ns, scheduled_ns)
        else:
            self._idle.append(one)

    async def _grow(self) -> None:
        """Open connections ahead of need."""
        for _ in range(min(2 * SPARE, self._max_in_flight - len(self._connections))):
            made = connection(self._reading)
            self._connections.append(made)
            with suppress(OSError):
                await made.open()
            self._idle.append(made)
        self._growing = False
