"""A timer for absolute instants of CLOCK_MONOTONIC, finer than those of event loops.

asyncio and uvloop round timers to a millisecond (epoll, libuv). A timerfd is a file descriptor that
becomes readable at the instant itself.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from specbench.units import NS_PER_S, seconds

_CLOCK_MONOTONIC = 1
_TFD_NONBLOCK = 0o4000
_TFD_CLOEXEC = 0o2000000
_TFD_TIMER_ABSTIME = 1


class AbsoluteTimer:
    """Calls a function at instants of `time.perf_counter_ns`, one at a time."""

    def __init__(self, on_due: Callable[[], None]) -> None:
        self._on_due = on_due
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._file = _timer_file()
        if self._file is not None:
            self._loop.add_reader(self._file, self._readable)

    def at(self, instant_ns: int) -> None:
        """Call at an instant, or soon when it has passed."""
        if self._file is not None:
            _set(self._file, max(instant_ns, 1))
        else:
            delay_s = max(seconds(instant_ns - time.perf_counter_ns()), 0)
            self._handle = self._loop.call_later(delay_s, self._on_due)

    def close(self) -> None:
        """Call no more."""
        if self._handle is not None:
            self._handle.cancel()
        if self._file is not None:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = None

    def _readable(self) -> None:
        assert self._file is not None
        # Set again meanwhile, it has nothing to read.
        with suppress(BlockingIOError):
            os.read(self._file, 8)
            self._on_due()


class _TimerSpec(ctypes.Structure):
    """`struct itimerspec`: an interval that stays zero, then the instant."""

    _fields_ = (
        ("interval_s", ctypes.c_long),
        ("interval_ns", ctypes.c_long),
        ("instant_s", ctypes.c_long),
        ("instant_ns", ctypes.c_long),
    )


def _timer_file() -> int | None:
    if sys.platform != "linux":
        return None
    file = _libc().timerfd_create(_CLOCK_MONOTONIC, _TFD_NONBLOCK | _TFD_CLOEXEC)
    return None if file < 0 else int(file)


def _set(file: int, instant_ns: int) -> None:
    spec = _TimerSpec(0, 0, *divmod(instant_ns, NS_PER_S))
    if _libc().timerfd_settime(file, _TFD_TIMER_ABSTIME, ctypes.byref(spec), None):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _libc() -> ctypes.CDLL:
    global _loaded  # noqa: PLW0603 - loaded on the first use, and only on Linux
    if _loaded is None:
        _loaded = ctypes.CDLL(None, use_errno=True)
    return _loaded


_loaded: ctypes.CDLL | None = None
