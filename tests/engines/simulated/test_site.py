from __future__ import annotations

import asyncio
from typing import Any

from specbench.engines.simulated.arguments import arguments, configured
from specbench.engines.simulated.http_server import HttpRequest, Reply
from specbench.engines.simulated.server import Site
from specbench.observe.metrics import parse


class _Kept(asyncio.Transport):
    """A connection that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: Any) -> None:
        self.written += data


def test_others_have_their_turn_between_the_families_of_a_page_of_counters() -> None:
    """A page takes 5 ms to write out: in one piece it would make the steps of 5 ms late."""
    player = configured(arguments(["--model", "toy"]), {}).player()
    connection = _Kept()

    async def asked() -> int:
        reply = Reply(connection, keep_alive=True)
        site = Site(player)
        site.handle(HttpRequest(method="GET", path="/metrics", headers={}, body=b""), reply)
        turns = 0
        while not reply.ended:
            await asyncio.sleep(0)
            turns += 1
        return turns

    turns = asyncio.run(asked())
    page = connection.written.partition(b"\r\n\r\n")[2].decode()
    assert page == player.exposition.page()
    assert len(parse(page).series) > 100
    assert turns >= page.count("# TYPE") / 2 > 10  # counters have a second one, of `_created`
