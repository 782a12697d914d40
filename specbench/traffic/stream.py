"""Connections that stream one request at a time, stamped as its bytes arrive.

The usual client stack costs some thirty times the CPU an event and delays its stamps by it
(docs/decisions/0005-own-stream-client.md). `KernelConnection` reads a socket of its own with the
kernel's arrival stamps (docs/decisions/0020-kernel-stamps.md); `ProtocolConnection` is what is left
where there are none, as under TLS, and stamps when the event loop reads.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import time
from abc import ABC, abstractmethod
from array import array
from functools import cache
from typing import Any

import attrs
import httptools

from specbench.client_facts import ClockKind
from specbench.experiment.load import Timeouts
from specbench.traffic.address import Address
from specbench.traffic.exchange import Exchange
from specbench.traffic.kernel_clock import (
    ANCILLARY_BYTES,
    SO_TIMESTAMPNS,
    ClockOffset,
    kernel_stamps_work,
)
from specbench.traffic.response import Response
from specbench.units import NS_PER_S, seconds

Place = tuple[int, int, int, str, Any]
"""Family, kind, protocol, name and address, as getaddrinfo gives them."""
READ_BYTES = 65536
_now = time.perf_counter_ns
_timespec = struct.Struct("qq").unpack_from


@attrs.define(eq=False)
class Reading:
    """What the connections of a window share: the clock, and how late they read."""

    address: Address
    timeouts: Timeouts
    clock: ClockKind
    offset: ClockOffset = attrs.field(factory=ClockOffset)
    lag_ns: array[int] = attrs.field(factory=lambda: array("q"))
    """Of each read, by how much it was read later than it arrived."""
    unstamped_reads: int = 0
    _places: list[Place] = attrs.field(factory=list)
    buffer: bytearray = attrs.field(factory=lambda: bytearray(READ_BYTES))
    """Reads go through one buffer: the loop makes one at a time, and parses it at once."""

    async def places(self) -> list[Place]:
        """Give the socket addresses of the server, asked for once."""
        if not self._places:
            loop, address = asyncio.get_running_loop(), self.address
            found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
            self._places = [item for item in found if item[0] in (socket.AF_INET, socket.AF_INET6)]
        return self._places

    def implausible(self, ahead_ns: int) -> None:
        """Take in a kernel stamp that lies after the read. A hair is the error of converting.

        More is a wall clock that was set.
        """
        if ahead_ns > self.offset.error_ns:
            self.offset.renew()
            self.unstamped_reads += 1


def usable_clock(address: Address) -> ClockKind:
    """Give the best clock for a server: the kernel's, unless TLS or the platform hides it."""
    return "kernel" if not address.tls and _kernel_stamps_work() else "user"


@cache
def _kernel_stamps_work() -> bool:
    return kernel_stamps_work()


def connection(reading: Reading) -> Connection:
    """Give a connection of the kind that the clock needs, not yet open."""
    kinds = {"kernel": KernelConnection, "user": ProtocolConnection}
    return kinds[reading.clock](reading)


class Connection(ABC):
    """A kept-alive connection. One exchange at a time; nothing is sent twice."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._exchange: Exchange | None = None
        self._response: Response | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._carried = 0
        """Exchanges that this connection carried before."""

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether a request can be sent at once."""

    async def open(self) -> None:
        """Connect.

        Raises:
            OSError: The server refused, or took longer than the time-out (TimeoutError).
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
        self._close()
        self._lost("closed by the client")

    def start(self, exchange: Exchange) -> None:
        """Send a request. Its `on_done` is called when the response is whole or lost."""
        self._exchange = exchange
        self._response = Response(exchange)
        timeouts = self._reading.timeouts
        first_s = timeouts.request_s
        if timeouts.first_event_s is not None:
            first_s = min(first_s, timeouts.first_event_s)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(first_s, self._check_time, exchange, self._response)
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

    def _whole(self, response: Response) -> None:
        """End the exchange of a response that is whole."""
        if not response.keeps_alive or (self._exchange and self._exchange.failure):
            self._close()
        self._end(response.stamp_ns)

    def _lost(self, why: str) -> None:
        exchange, response = self._exchange, self._response
        if exchange is None or response is None:
            return
        if self._carried and not response.stamp_ns:
            why = f"{why}, on a kept connection before an answer"
        response.lose(why)
        self._end(_now())

    def _end(self, ended_ns: int) -> None:
        exchange = self._exchange
        assert exchange is not None
        assert self._timer is not None
        self._timer.cancel()
        self._exchange = self._response = self._timer = None
        self._carried += 1
        exchange.end(ended_ns)

    def _check_time(self, exchange: Exchange, response: Response) -> None:
        """End what has taken too long, or look again when the next limit can be reached.

        No event moves a timer: the timer, when it comes, asks when the last event was.
        """
        if response is not self._response:
            return
        response.decode()
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
            self._timer = loop.call_later(left_s, self._check_time, exchange, response)
            return
        exchange.fail("timeout", said)
        self._close()
        self._end(now_ns)


class KernelConnection(Connection):
    """A socket of our own on the event loop, read with the kernel's arrival stamps."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        self._socket: socket.socket | None = None
        self._unsent = b""
        self._into = [reading.buffer]
        self._view = memoryview(reading.buffer)

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent at once. The end of a kept connection shows here."""
        if self._socket is None:
            return False
        if self._carried:
            try:
                self._socket.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                return True
            except OSError:
                pass
            # The server closed it meanwhile, or said what nobody asked.
            self._close()
            return False
        return True

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        failure: OSError | None = None
        for family, kind, protocol, _, place in await self._reading.places():
            made = socket.socket(family, kind, protocol)
            made.setblocking(False)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            made.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            try:
                await loop.sock_connect(made, place)
            except OSError as error:
                made.close()
                failure = error
                continue
            except BaseException:
                made.close()
                raise
            self._socket = made
            loop.add_reader(made, self._readable)
            return
        raise failure or OSError(f"{self._reading.address.host} has no address")

    def _send(self, wire: bytes) -> None:
        assert self._socket is not None
        try:
            sent = self._socket.send(wire)
        except BlockingIOError:
            sent = 0
        if sent < len(wire):
            self._unsent = wire[sent:]
            asyncio.get_running_loop().add_writer(self._socket, self._writable)

    def _writable(self) -> None:
        assert self._socket is not None
        try:
            self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            return
        except OSError as error:
            self._close()
            self._lost(str(error))
            return
        if not self._unsent:
            asyncio.get_running_loop().remove_writer(self._socket)

    def _readable(self) -> None:
        assert self._socket is not None
        try:
            size, ancillary, _, _ = self._socket.recvmsg_into(self._into, ANCILLARY_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            self._close()
            self._lost(str(error))
            return
        read_ns, response = _now(), self._response
        if response is None or not size:
            # The end of the stream, or bytes that nobody asked for: what follows them cannot be
            # trusted.
            self._close()
            self._lost("closed by the server")
            return
        reading = self._reading
        if ancillary:
            # The socket asked for nothing else, so there is nothing else.
            whole_s, rest_ns = _timespec(ancillary[0][2])
            stamp_ns = whole_s * NS_PER_S + rest_ns - reading.offset.offset_ns
            if stamp_ns > read_ns:
                reading.implausible(stamp_ns - read_ns)
                stamp_ns = read_ns
            reading.lag_ns.append(read_ns - stamp_ns)
        else:
            reading.unstamped_reads += 1
            stamp_ns = read_ns
        response.stamp_ns = stamp_ns
        try:
            response.feed(self._view[:size])
        except httptools.HttpParserError as error:
            response.malformed(error)
        if response.done:
            self._whole(response)

    def _close(self) -> None:
        if self._socket is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._socket)
        if self._unsent:
            loop.remove_writer(self._socket)
            self._unsent = b""
        self._socket.close()
        self._socket = None


class ProtocolConnection(Connection, asyncio.Protocol):
    """A transport of the event loop, TLS included. The loop takes the arrival stamp."""

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent at once."""
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport (asyncio.Protocol)."""
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Stamp a read, then parse it (asyncio.Protocol)."""
        read_ns, response = _now(), self._response
        if response is None:
            # Nobody asked for these bytes: what follows them cannot be trusted.
            self._close()
            return
        response.stamp_ns = read_ns
        try:
            response.feed(data)
        except httptools.HttpParserError as error:
            response.malformed(error)
        if response.done:
            self._whole(response)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange that the connection carried (asyncio.Protocol)."""
        self._transport = None
        self._lost(str(exc or "closed by the server"))

    async def _connect(self) -> None:
        address = self._reading.address
        await asyncio.get_running_loop().create_connection(
            lambda: self,
            address.host,
            address.port,
            ssl=ssl.create_default_context() if address.tls else None,
        )

    def _send(self, wire: bytes) -> None:
        assert self._transport is not None
        self._transport.write(wire)

    def _close(self) -> None:
        if self._transport is not None:
            # Not `close`: it would wait for a server that stalls.
            self._transport.abort()
            self._transport = None
