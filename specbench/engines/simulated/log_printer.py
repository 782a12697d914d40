"""What stands before the message of a log line: process, level, time and place."""

from __future__ import annotations

import time
from collections.abc import Callable

import attrs

from specbench.engines.simulated.served import Version


@attrs.frozen(kw_only=True)
class Printer:
    """Gives lines the prefix of one process."""

    version: Version
    pid: int
    clock: Callable[[], float]
    process: str

    def __call__(self, place: tuple[str, str], message: str, level: str = "INFO") -> str:
        """Give a line of the log."""
        stamp = time.strftime("%m-%d %H:%M:%S", time.localtime(self.clock()))
        where = place[0 if self.version == "0.23.0" else 1]
        return self.bare(f"{level} {stamp} [{where}] {message}")

    def bare(self, message: str) -> str:
        """Give a line that has only the process."""
        return f"({self.process} pid={self.pid}) {message}"
