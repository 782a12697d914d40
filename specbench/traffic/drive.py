"""A closed loop: a constant number of requests in flight until a list of them is done."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence

import anyio

from specbench.facts import RequestRow, Window
from specbench.traffic.requests import TimedRequest
from specbench.traffic.stream import CLOCK, Address, Connection, Exchange

OnRow = Callable[[RequestRow], None]


async def drive(
    requests: Sequence[TimedRequest],
    *,
    base_url: str,
    concurrency: int,
    timeout_s: float,
    on_row: OnRow | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Window:
    """Send every request once, `concurrency` at a time, and give what came back.

    When `stop` turns true nothing more is sent, and what is in flight is waited for. Connections
    are opened before the first send, and garbage is collected before, not within.
    """
    address = Address.of(base_url)
    connections = [Connection(address) for _ in range(concurrency)]
    finished: list[Exchange] = []
    queue = iter(requests)

    async def work(connection: Connection) -> None:
        for request in queue:
            if stop():
                return
            exchange = await connection.stream(request, timeout_s=timeout_s)
            finished.append(exchange)
            if on_row is not None:
                on_row(exchange.row())

    try:
        async with anyio.create_task_group() as opening:
            for connection in connections:
                opening.start_soon(_opened, connection)
        gc.collect()
        gc.disable()
        started_unix_s = time.time()
        async with anyio.create_task_group() as working:
            for connection in connections:
                working.start_soon(work, connection)
    finally:
        gc.enable()
        for connection in connections:
            connection.close()
    finished.sort(key=lambda exchange: exchange.request.index)
    return Window(
        rows=tuple(exchange.row() for exchange in finished),
        outputs=tuple(exchange.output() for exchange in finished),
        concurrency=concurrency,
        clock=CLOCK,
        started_unix_s=started_unix_s,
    )


async def _opened(connection: Connection) -> None:
    """Open a connection early. A refusal shows again, as a failed row, when it is used."""
    try:
        await connection.open()
    except OSError:
        return
