"""What this machine must have before anything is measured on it."""

from __future__ import annotations

import resource
import time

from specbench.errors import MachineError

COARSEST_CLOCK_S = 1e-6
SPARE_FILES = 64


def require_machine(concurrency: int) -> None:
    """Check the clock's resolution and that every stream can have a socket.

    Raises:
        MachineError: Measuring here would give numbers that are not what they say.
    """
    clock = time.get_clock_info("perf_counter")
    if not clock.monotonic or clock.resolution > COARSEST_CLOCK_S:
        raise MachineError(
            f"the clock {clock.implementation} resolves {clock.resolution:g} s",
            f"measuring needs a monotonic clock of {COARSEST_CLOCK_S:g} s or finer",
        )
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = concurrency + SPARE_FILES
    if files != resource.RLIM_INFINITY and files < needed:
        raise MachineError(
            f"{files} open files are allowed, and concurrency {concurrency} needs {needed}",
            f"ulimit -n {needed}",
        )
