"""Sockets that are watched for bytes in one epoll of our own, inside the event loop.

A callback of the loop for each socket costs a microsecond or more each time. Here the loop watches
the epoll, and what is ready is called in a row. Being woken costs more still, so while many reads
come they are let gather (docs/decisions/0090-reads-gather.md).
"""

from __future__ import annotations

import asyncio
import select
import socket
import sys
import time
from collections.abc import Callable

if sys.platform == "linux":
    # Edges: what was read to its end is not looked at again before more has come.
    _BYTES_ONLY = select.EPOLLIN
    _ASKED = _BYTES_ONLY | select.EPOLLRDHUP | select.EPOLLET
_MOST_IN_A_ROW = 64
"""Sockets that are called before the loop looks at its timers again."""
GATHER_S = 0.0002
"""For how long reads gather: a fifth of what the gates allow a read to be late."""
_SPAN_NS = 1_000_000
_DENSE_READS = 10
"""Reads in a span from which on the next ones gather: two or more come while they do."""
_now = time.perf_counter_ns


class WatchedSockets:
    """Calls for each socket that has become readable.

    With `gathers`, soon after instead of at once where many are: for sockets whose reads say when
    they arrived, and where nothing else waits for the loop.
    """

    def __init__(self, *, gathers: bool = False) -> None:
        self._gathers = gathers
        self._reads = 0
        self._span_ends_ns = 0
        self._is_dense = False
        self._calls: dict[int, Callable[[], bool]] = {}
        self._epoll: select.epoll | None = None

    def add(self, watched: socket.socket, on_readable: Callable[[], bool]) -> None:
        """Watch a socket. What is called tells whether it left something to read."""
        if self._epoll is None:
            self._epoll = select.epoll()
            asyncio.get_running_loop().add_reader(self._epoll, self._ready)
        self._calls[watched.fileno()] = on_readable
        self._epoll.register(watched, _ASKED)

    def discard(self, watched: socket.socket) -> None:
        """Watch a socket no more, before it closes."""
        assert self._epoll is not None
        del self._calls[watched.fileno()]
        self._epoll.unregister(watched)
        if not self._calls:
            asyncio.get_running_loop().remove_reader(self._epoll)
            self._epoll.close()
            self._epoll = None

    def _ready(self) -> None:
        epoll, calls = self._epoll, self._calls
        assert epoll is not None
        if self._is_dense:
            time.sleep(GATHER_S)
        ready = epoll.poll(0, _MOST_IN_A_ROW)
        if self._gathers:
            self._count(len(ready))
        for file, what in ready:
            # None: another socket's call closed this one.
            on_readable = calls.get(file)
            if on_readable is None:
                continue
            left = on_readable()
            if (left or what != _BYTES_ONLY) and file in calls:
                # Set anew, an edge is reported if there is something to read, an end included.
                epoll.modify(file, _ASKED)

    def _count(self, reads: int) -> None:
        """Count reads, and rule on the next ones at the end of each span that had some."""
        now_ns = _now()
        if now_ns >= self._span_ends_ns:
            self._is_dense = self._reads >= _DENSE_READS
            self._span_ends_ns = now_ns + _SPAN_NS
            self._reads = 0
        self._reads += reads
