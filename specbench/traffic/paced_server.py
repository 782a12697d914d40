"""A local server that paces events and stamps each send: what a client is certified against.

    python -m specbench.traffic.paced_server --ttft-ms 50 --itl-ms 10 --tokens 100

It prints its port and serves until its standard input ends, so that it cannot outlive who started
it. Event k of a request is due at its arrival + TTFT + k x ITL, absolutely. An event's text is the
instant of its send in hexadecimal, the first one's also the instant of arrival: CLOCK_MONOTONIC,
which is one clock for all processes of a machine. A client compares them with its own, and finds by
how much this server was late itself.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import selectors
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import attrs

from specbench.units import NS_PER_S

STAMP = b"%016x"
STAMP_CHARACTERS = 16
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_BEFORE = b'data: {"id":"paced","object":"chat.completion.chunk","choices":[{"index":0,"delta":{'
_NEAR_S = 0.0015
"""Selectors wait whole milliseconds: what is due sooner is waited for without it."""
_now = time.perf_counter_ns


def _chunk(size: int, finish: bytes) -> tuple[bytes, bytes]:
    """Give what stands before and after `size` characters of text in an event's HTTP chunk."""
    before = _BEFORE + b'"content":"'
    after = b'"},"finish_reason":%b}]}\n\n' % finish
    return b"%x\r\n%b" % (len(before) + size + len(after), before), after + b"\r\n"


_FIRST = _chunk(2 * STAMP_CHARACTERS, b"null")
_MIDDLE = _chunk(STAMP_CHARACTERS, b"null")
_LAST = _chunk(STAMP_CHARACTERS, b'"length"')


def _plain(event: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(event), event)


_ROLE = _plain(_BEFORE + b'"role":"assistant","content":""},"finish_reason":null}]}\n\n')


@attrs.define(eq=False)
class _Stream:
    """A connection and the response that it carries."""

    socket: socket.socket
    received: bytes = b""
    arrived_ns: int = 0
    sent: int = 0


class PacedServer:
    """Serves every request the same stream."""

    def __init__(self, ttft_ns: int, itl_ns: int, tokens: int) -> None:
        self._ttft_ns, self._itl_ns, self._tokens = ttft_ns, itl_ns, tokens
        usage = b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":%d}}\n\n'
        self._end = _plain(usage % tokens) + _plain(b"data: [DONE]\n\n") + b"0\r\n\r\n"
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._number = itertools.count()
        """Orders what is due at the same instant."""
        self._due: list[tuple[int, int, _Stream]] = []

    def serve(self, until: int) -> None:
        """Serve until a file becomes readable."""
        with self._selector as selector:
            selector.register(until, selectors.EVENT_READ)
            selector.register(self._listener, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select(self._wait_s()):
                    if key.fd == until:
                        return
                    if key.fileobj is self._listener:
                        self._accept()
                    else:
                        self._read(key.data)
                for stream in self._now_due():
                    with suppress(OSError):
                        self._send(stream)

    def _wait_s(self) -> float | None:
        if not self._due:
            return None
        left_s = (self._due[0][0] - _now()) / NS_PER_S
        return left_s - _NEAR_S if left_s > _NEAR_S else 0

    def _now_due(self) -> Iterator[_Stream]:
        now_ns = _now()
        while self._due and self._due[0][0] <= now_ns:
            yield heapq.heappop(self._due)[2]

    def _accept(self) -> None:
        with suppress(BlockingIOError):
            while True:
                made, _ = self._listener.accept()
                made.setblocking(False)
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._selector.register(made, selectors.EVENT_READ, _Stream(made))

    def _read(self, stream: _Stream) -> None:
        try:
            data = stream.socket.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(stream.socket)
            stream.socket.close()
            return
        stream.received += data
        head, found, body = stream.received.partition(b"\r\n\r\n")
        if found and len(body) >= _length(head):
            stream.received, stream.arrived_ns, stream.sent = b"", _now(), 0
            self._schedule(stream)

    def _schedule(self, stream: _Stream) -> None:
        due_ns = stream.arrived_ns + self._ttft_ns + stream.sent * self._itl_ns
        heapq.heappush(self._due, (due_ns, next(self._number), stream))

    def _send(self, stream: _Stream) -> None:
        """Send one event in a write of its own, as servers do; the last one with what ends it."""
        if stream.sent == 0:
            stream.socket.send(_HEAD + _ROLE)
            before, after = _FIRST
            text = STAMP % stream.arrived_ns
        else:
            before, after = _LAST if stream.sent == self._tokens - 1 else _MIDDLE
            text = b""
        stream.sent += 1
        whole = stream.sent == self._tokens
        stream.socket.send(
            b"%b%b%016x%b%b" % (before, text, _now(), after, self._end if whole else b"")
        )
        if not whole:
            self._schedule(stream)


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


def main() -> None:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ttft-ms", type=float, required=True)
    parser.add_argument("--itl-ms", type=float, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    asked = parser.parse_args()
    server = PacedServer(round(asked.ttft_ms * 1e6), round(asked.itl_ms * 1e6), asked.tokens)
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    server.serve(sys.stdin.fileno())


if __name__ == "__main__":
    main()
