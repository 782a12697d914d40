"""What any connection does with its reads: they wait, are parsed in batches, and end a request."""

from __future__ import annotations

import asyncio
import socket
import time
from abc import ABC, abstractmethod
from array import array
from typing import Any

import attrs

from specbench.client_facts import ClockKind
from specbench.experiment.load import Timeouts
from specbench.traffic.address import Address
from specbench.traffic.exchange import Exchange
from specbench.traffic.kernel_clock import ClockOffset
from specbench.traffic.plain_reads import CHUNK_OF_EVENTS_END
from specbench.traffic.response import Response
from specbench.traffic.watched_sockets import WatchedSockets
from specbench.units import NS_PER_S, seconds

Place = tuple[int, int, int, str, Any]
"""Family, kind, protocol, name and address, as getaddrinfo gives them."""
BATCH_BYTES = 8192
"""Bytes of a stream that wait to be parsed: some forty events of usual size. In a batch an event
takes a third of the time: between single events other streams evict code and data from the caches.
Stamps are taken at once."""
BATCH_STEPS = 32
_now = time.perf_counter_ns


@attrs.define(eq=False)
class Reading:
    """What the connections of a window share: the clock, and how late they read."""

    address: Address
    timeouts: Timeouts
    clock: ClockKind
    watched: WatchedSockets = attrs.field(factory=WatchedSockets)
    offset: ClockOffset = attrs.field(factory=ClockOffset)
    lag_ns: array[int] = attrs.field(factory=lambda: array("q"))
    """Of each read, by how much it was read later than it arrived."""
    unstamped_reads: int = 0
    _places: list[Place] = attrs.field(factory=list)

    async def places(self) -> list[Place]:
        """Give the socket addresses to connect to, asked for once."""
        if not self._places:
            loop, (host, port) = asyncio.get_running_loop(), self.address.hop
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            self._places = [item for item in found if item[0] in (socket.AF_INET, socket.AF_INET6)]
        return self._places

    def implausible(self, ahead_ns: int) -> None:
        """Take in a kernel stamp that lies after the read. A hair is the error of converting.

        More is a wall clock that was set.
        """
        if ahead_ns > self.offset.error_ns:
            self.offset.renew()
            self.unstamped_reads += 1


class Connection(ABC):
    """A kept-alive connection. One exchange at a time; nothing is sent twice."""

    __slots__ = (
        "_carried",
        "_exchange",
        "_most_waiting",
        "_reading",
        "_reads",
        "_response",
        "_stamps_ns",
        "_timer",
        "_waiting",
    )

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._exchange: Exchange | None = None
        self._response: Response | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._reads: list[bytes] = []
        """Reads that wait to be parsed."""
        self._stamps_ns: array[int] = array("q")
        """When each of them arrived."""
        self._waiting = 0
        """Their bytes."""
        self._most_waiting = -1
        """Bytes up to which a read waits to be parsed, unless it may end its response."""
        self._carried = 0
        """Exchanges that this connection carried before."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether a request can be sent at once."""

    async def open(self) -> None:
        """Connect.

        Raises:
            OSError: The server or a proxy refused, or took longer than the time-out (TimeoutError).
        """
        self._carried = 0
        limit_s = self._reading.timeouts.connect_s
        try:
            async with asyncio.timeout(limit_s):
                await self._connect()
        except TimeoutError:
            raise TimeoutError(f"no connection after {limit_s:g} s") from None

    def close(self) -> None:
        """Close the connection; a request in flight is lost."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._close()
        self._lost("closed by the client")

    def start(self, exchange: Exchange) -> None:
        """Send a request. Its `on_done` is called when the response is whole or lost."""
        self._exchange = exchange
        self._response = Response(exchange)
        loop = asyncio.get_running_loop()
        if self._timer is None:
            self._timer = loop.call_later(self._reading.timeouts.shortest_s, self._check_time)
        exchange.sent_ns = _now()
        try:
            self._send(exchange.request.wire)
        except OSError as error:
            self._close()
            # Not at once: the driver may start the next request from within `on_done`.
            loop.call_soon(self._lost, str(error))

    @abstractmethod
    async def _connect(self) -> None: ...

    @abstractmethod
    def _send(self, wire: bytes) -> None: ...

    @abstractmethod
    def _close(self) -> None: ...

    def _arrived(self, data: bytes, stamp_ns: int) -> None:
        """Take in a read. It waits to be parsed with others, or they are parsed with it."""
        self._reads.append(data)
        self._stamps_ns.append(stamp_ns)
        self._waiting += len(data)
        if self._waiting > self._most_waiting or not data.endswith(CHUNK_OF_EVENTS_END):
            self._work_off()

    def _work_off(self) -> None:
        """Parse the reads that wait. Ends the exchange of a response that is whole."""
        reads, stamps_ns, response = self._reads, self._stamps_ns, self._response
        if not reads:
            return
        self._reads, self._stamps_ns, self._waiting = [], array("q"), 0
        if response is None:
            # Nobody asked for these bytes: what follows them cannot be trusted.
            self._close()
            return
        batched = response.can_wait
        response.take(reads, stamps_ns)
        if response.done:
            self._whole(response)
        elif batched:
            self._most_waiting = BATCH_BYTES
        elif response.can_wait:
            # Streams that start together are not all parsed together.
            assert self._exchange is not None
            step = 1 + self._exchange.request.index % BATCH_STEPS
            self._most_waiting = BATCH_BYTES * step // BATCH_STEPS

    def _whole(self, response: Response) -> None:
        """End the exchange of a response that is whole."""
        if not response.keeps_alive or (self._exchange and self._exchange.failure):
            self._close()
        self._end(response.stamp_ns)

    def _lost(self, why: str) -> None:
        self._work_off()
        exchange, response = self._exchange, self._response
        if exchange is None or response is None:
            return
        if self._carried and not response.stamp_ns:
            why = f"{why}, on a kept connection before an answer"
        response.lose(why)
        self._end(_now())

    def _end(self, ended_ns: int) -> None:
        exchange, response = self._exchange, self._response
        assert exchange is not None
        assert response is not None
        response.release()
        self._exchange = self._response = None
        self._most_waiting = -1
        self._carried += 1
        exchange.end(ended_ns)

    def _check_time(self) -> None:
        """End what has taken too long, or look again when the next limit can be reached.

        Neither an event nor a request moves the timer: when it comes, it asks when the last of
        either was. No limit can be reached sooner, for all of them count from later instants.
        """
        self._timer = None
        self._work_off()
        exchange = self._exchange
        if exchange is None:
            return
        now_ns, timeouts = _now(), self._reading.timeouts
        limits: list[tuple[int, float | None, str]] = [
            (exchange.sent_ns, timeouts.request_s, "not complete after")
        ]
        if exchange.first_event_ns is None:
            limits.append((exchange.sent_ns, timeouts.first_event_s, "no first event after"))
        else:
            limits.append((exchange.last_event_ns, timeouts.between_events_s, "no event for"))
        ends = [
            (start_ns + round(limit_s * NS_PER_S), f"{said} {limit_s:g} s")
            for start_ns, limit_s, said in limits
            if limit_s is not None
        ]
        due_ns, said = min(ends)
        if now_ns < due_ns:
            loop = asyncio.get_running_loop()
            left_s = seconds(due_ns - now_ns)
            self._timer = loop.call_later(left_s, self._check_time)
            return
        exchange.fail("timeout", said)
        self._close()
        self._end(now_ns)
