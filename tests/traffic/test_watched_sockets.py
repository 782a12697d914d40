from __future__ import annotations

import asyncio
import socket

from specbench.traffic.watched_sockets import WatchedSockets


def test_what_is_left_is_read_and_the_end_after_it() -> None:
    """Edges come once: bytes that a call leaves, and an end that came with them, need another."""

    async def run() -> list[bytes]:
        watched, got = WatchedSockets(), []
        over = asyncio.get_running_loop().create_future()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)

        def read() -> bool:
            got.append(ours.recv(4))
            if not got[-1]:
                watched.discard(ours)
                over.set_result(None)
            return len(got[-1]) == 4

        with ours, theirs:
            theirs.send(b"0123456789")
            theirs.shutdown(socket.SHUT_WR)
            watched.add(ours, read)
            await asyncio.wait_for(over, 5)
        return got

    assert asyncio.run(run()) == [b"0123", b"4567", b"89", b""]


def test_a_socket_that_another_call_has_discarded_is_not_called() -> None:
    async def run() -> list[int]:
        watched, called = WatchedSockets(), []
        pairs = [socket.socketpair() for _ in range(2)]
        over = asyncio.get_running_loop().create_future()

        def reader(place: int) -> bool:
            called.append(place)
            for ours, _ in pairs:
                watched.discard(ours)
            over.set_result(None)
            return False

        for place, (ours, theirs) in enumerate(pairs):
            theirs.send(b"x")
            watched.add(ours, lambda place=place: reader(place))
        await asyncio.wait_for(over, 5)
        await asyncio.sleep(0)
        for pair in pairs:
            for one in pair:
                one.close()
        return called

    assert len(asyncio.run(run())) == 1
