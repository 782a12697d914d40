from __future__ import annotations

import asyncio
import socket

from specbench.traffic import watched_sockets
from specbench.traffic.watched_sockets import (
    DENSE_READS,
    GATHER_S,
    SPAN_NS,
    Gathering,
    WatchedSockets,
)


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


def dense() -> Gathering:
    gathering = Gathering()
    gathering.count(DENSE_READS, 0)
    gathering.count(1, SPAN_NS)
    return gathering


def test_reads_gather_only_while_they_come_densely() -> None:
    gathering = Gathering()
    gathering.count(DENSE_READS - 1, 0)
    gathering.count(1, SPAN_NS)
    assert gathering.wait_s == 0
    gathering = dense()
    assert gathering.wait_s == GATHER_S
    gathering.count(1, 2 * SPAN_NS)
    assert gathering.wait_s == 0


def test_nothing_is_waited_for_when_much_is_there() -> None:
    gathering = dense()
    gathering.count(64, SPAN_NS)
    assert gathering.wait_s == 0
    gathering.count(1, SPAN_NS)
    assert gathering.wait_s == GATHER_S


def test_what_arrives_while_reads_gather_is_read_with_them(monkeypatch) -> None:
    async def run() -> list[str]:
        said: list[str] = []
        over = asyncio.get_running_loop().create_future()
        watched = WatchedSockets(dense())
        pairs = [socket.socketpair() for _ in range(2)]

        def wait(wait_s: float) -> None:
            said.append(f"waits {wait_s:g}")
            pairs[1][1].send(b"late")

        monkeypatch.setattr(watched_sockets.time, "sleep", wait)

        def reader(ours: socket.socket) -> bool:
            said.append(ours.recv(9).decode())
            if said[-1] == "late":
                over.set_result(None)
            return False

        for ours, _ in pairs:
            watched.add(ours, lambda ours=ours: reader(ours))
        pairs[0][1].send(b"early")
        await asyncio.wait_for(over, 5)
        for pair in pairs:
            watched.discard(pair[0])
            for one in pair:
                one.close()
        return said

    assert asyncio.run(run()) == [f"waits {GATHER_S:g}", "early", "late"]
