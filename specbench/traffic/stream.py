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
from functools import cache

from specbench.client_facts import ClockKind
from specbench.traffic.address import Address
from specbench.traffic.connection import Connection, Reading
from specbench.traffic.kernel_clock import ANCILLARY_BYTES, kernel_stamps_work
from specbench.traffic.reach import reached
from specbench.units import NS_PER_S

READ_BYTES = 4096
"""Most of one read. What is left is read at once after it."""
_now = time.perf_counter_ns
_timespec = struct.Struct("qq").unpack_from


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


class KernelConnection(Connection):
    """A socket of our own on the event loop, read with the kernel's arrival stamps."""

    __slots__ = ("_receive", "_socket", "_unsent")

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading)
        self._socket: socket.socket | None = None
        self._unsent = b""

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
        self._socket = await reached(self._reading, stamped=True)
        self._receive = self._socket.recvmsg
        self._reading.watched.add(self._socket, self._read)

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

    def _read(self) -> bool:
        """Read and stamp, and tell whether more may be left. Does nothing that can wait."""
        try:
            data, ancillary, _, _ = self._receive(READ_BYTES, ANCILLARY_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            self._close()
            self._lost(str(error))
            return False
        read_ns = _now()
        if not data:
            self._close()
            self._lost("closed by the server")
            return False
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
        self._arrived(data, stamp_ns)
        return len(data) == READ_BYTES

    def _close(self) -> None:
        if self._socket is None:
            return
        self._reading.watched.discard(self._socket)
        if self._unsent:
            asyncio.get_running_loop().remove_writer(self._socket)
            self._unsent = b""
        self._socket.close()
        self._socket = None


class ProtocolConnection(Connection, asyncio.Protocol):
    """A transport of the event loop, TLS included. The loop takes the arrival stamp."""

    __slots__ = ("_transport",)

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
        """Stamp a read; what can wait is parsed later (asyncio.Protocol)."""
        self._arrived(data, _now())

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange that the connection carried (asyncio.Protocol)."""
        self._transport = None
        self._lost(str(exc or "closed by the server"))

    async def _connect(self) -> None:
        address = self._reading.address
        trusted = ssl.create_default_context() if address.tls else None
        await asyncio.get_running_loop().create_connection(
            lambda: self,
            sock=await reached(self._reading, stamped=False),
            ssl=trusted,
            server_hostname=address.host if address.tls else None,
        )

    def _send(self, wire: bytes) -> None:
        assert self._transport is not None
        self._transport.write(wire)

    def _close(self) -> None:
        if self._transport is not None:
            # Not `close`: it would wait for a server that stalls.
            self._transport.abort()
            self._transport = None
