"""Stopping on a signal: the first lets requests in flight finish, the second stops now."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import anyio
import anyio.lowlevel

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopping:
    """Whether, and how urgently, somebody asked the walk to stop."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._scope: anyio.CancelScope | None = None
        self.signal: int | None = None
        """The signal that asked first."""
        self._tell = tell
        self._finishing = False

    @property
    def asked(self) -> bool:
        """Whether nothing new should begin."""
        return self.signal is not None

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the signals for the length of the block, which runs in the cancel scope."""
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._ask, number)
        try:
            with anyio.CancelScope() as self._scope:
                yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)

    @contextmanager
    def finishing(self) -> Iterator[None]:
        """Let the block finish what is in flight when a first signal comes."""
        self._finishing = True
        try:
            yield
        finally:
            self._finishing = False

    async def end(self) -> None:
        """Stop here: everything that is open is closed on the way out."""
        self._cancel()
        await anyio.lowlevel.checkpoint()

    def _ask(self, number: int) -> None:
        again, self.signal = self.asked, self.signal or number
        if again or not self._finishing:
            self._tell("stopping")
            self._cancel()
        else:
            self._tell("finishing the requests in flight; once more stops now")

    def _cancel(self) -> None:
        if self._scope is not None:
            self._scope.cancel()
