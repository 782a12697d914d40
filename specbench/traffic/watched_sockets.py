"""Sockets that are watched for bytes in one epoll of our own, inside the event loop.

A callback of the loop for each socket costs a microsecond or more each time. Here the loop watches
the epoll, and what is ready is called in a row.
"""

from __future__ import annotations

import asyncio
import select
import socket
import sys
from collections.abc import Callable

if sys.platform == "linux":
    # Edges: what was read to its end is not looked at again before more has come.
    _BYTES_ONLY = select.EPOLLIN
    _ASKED = _BYTES_ONLY | select.EPOLLRDHUP | select.EPOLLET
_MOST_IN_A_ROW = 64
"""Sockets that are called before the loop looks at its timers again."""


class WatchedSockets:
    """Calls for each socket that has become readable."""

    def __init__(self) -> None:
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
        for file, what in epoll.poll(0, _MOST_IN_A_ROW):
            # None: another socket's call closed this one.
            on_readable = calls.get(file)
            if on_readable is None:
                continue
            left = on_readable()
            if (left or what != _BYTES_ONLY) and file in calls:
                # Set anew, an edge is reported if there is something to read, an end included.
                epoll.modify(file, _ASKED)
