"""Drives the requests of a window, in this process or in several, and gives what came back."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.facts import Window
from specbench.traffic.loops import LoadPoint, OnRow, Stop, driver
from specbench.traffic.parts import window
from specbench.traffic.requests import TimedRequest
from specbench.traffic.shards import drive_shares, shares


async def drive(
    requests: Sequence[TimedRequest],
    asked: LoadPoint,
    *,
    on_row: OnRow | None = None,
    stop: Stop = lambda: False,
) -> Window:
    """Send every request once, as the load point says.

    When `stop` turns true nothing more is sent, and what is in flight is waited for. From several
    processes rows are told to `on_row` at the end.

    Raises:
        MachineError: A client process was lost.
    """
    if asked.processes == 1:
        return window([await driver(requests, asked, on_row, stop).run()], asked.concurrency)
    parts = await drive_shares(shares(requests, asked, asked.processes), stop=stop)
    merged = window(parts, asked.concurrency)
    if on_row is not None:
        for row in merged.rows:
            on_row(row)
    return merged
