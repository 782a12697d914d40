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
GATHER_S = 0.0004
"""For how long reads gather: well within what the gates allow a read to be late."""
SPAN_NS = 2_000_000
DENSE_READS = 40
"""Reads in a span from which on the next ones gather: eight or more come while they do."""
_ENOUGH = 32
"""Sockets that were ready at once, from which on there is no need to wait for more."""


class Gathering:
    """Lets reads gather while they come densely, so that one waking up serves many."""

    def __init__(self) -> None:
        self._is_dense = False
        self._ready = 0
        self._reads = 0
        self._span_ends_ns = 0

    @property
    def wait_s(self) -> float:
        """How long to wait before the next reads: not at all where few came, or many are there."""
        return GATHER_S if self._is_dense and self._ready < _ENOUGH else 0.0

    def count(self, ready: int, now_ns: int) -> None:
        """Count sockets that are read now, and rule on the next ones at the end of a span."""
        if now_ns >= self._span_ends_ns:
            self._is_dense = self._reads >= DENSE_READS
            self._span_ends_ns = now_ns + SPAN_NS
            self._reads = 0
        self._reads += ready
        self._ready = ready


class WatchedSockets:
    """Calls for each socket that has become readable.

    With `gathering`, soon after instead of at once where many are: for sockets whose reads say when
    they arrived, and where nothing else waits for the loop.
    """

    def __init__(self, gathering: Gathering | None = None) -> None:
        self._gathering = gathering
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
        gathering = self._gathering
        if gathering is not None and (wait_s := gathering.wait_s):
            time.sleep(wait_s)
        ready = epoll.poll(0, _MOST_IN_A_ROW)
        if gathering is not None:
            gathering.count(len(ready), time.perf_counter_ns())
        for file, what in ready:
            # None: another socket's call closed this one.
            on_readable = calls.get(file)
            if on_readable is None:
                continue
            left = on_readable()
            if (left or what != _BYTES_ONLY) and file in calls:
                # Set anew, an edge is reported if there is something to read, an end included.
                epoll.modify(file, _ASKED)
