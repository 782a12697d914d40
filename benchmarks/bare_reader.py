"""Reads streams in Python as cheaply as it can be done with an arrival stamp an event, and no more.

    python bare_reader.py PORT STREAMS REQUESTS TOKENS

Run by `client.py` on the core that is to be measured. It parses no HTTP, decodes nothing, checks
nothing: what Python and the kernel cost, beside what specbench's client costs.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import time
from array import array
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import anyio

from specbench.traffic.kernel_clock import ANCILLARY_BYTES, SO_TIMESTAMPNS

READ_BYTES = 65536
LIMIT_S = 120


async def read(port: int, streams: int, requests: int, tokens: int) -> None:
    """Keep so many streams in flight until every request is answered, and print what it took."""
    body = json.dumps(
        {
            "model": "ref",
            "messages": [{"role": "user", "content": "x" * 900}],
            "max_tokens": tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    )
    head = "POST /v1/chat/completions HTTP/1.1\r\nHost: ref\r\nContent-Type: application/json\r\n"
    wire = f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    opened = [socket.create_connection(("127.0.0.1", port)) for _ in range(streams)]
    stamps: array[int] = array("q")
    unsent, unanswered = requests - streams, requests

    def readable(one: socket.socket, receive: Callable[..., Any]) -> None:
        nonlocal unsent, unanswered
        with suppress(BlockingIOError):
            data, ancillary, _, _ = receive(READ_BYTES, ANCILLARY_BYTES)
            if ancillary:
                stamps.frombytes(ancillary[0][2])
            if data.endswith(b"0\r\n\r\n"):
                unanswered -= 1
                if unsent:
                    unsent -= 1
                    one.send(wire)
                elif not unanswered:
                    over.set()

    for one in opened:
        one.setblocking(False)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        one.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        loop.add_reader(one, partial(readable, one, one.recvmsg))
    cpu_s, started_s = time.process_time(), time.perf_counter()
    for one in opened:
        one.send(wire)
    await asyncio.wait_for(over.wait(), LIMIT_S)
    wall_s, cpu_s = time.perf_counter() - started_s, time.process_time() - cpu_s
    for one in opened:
        loop.remove_reader(one)
        one.close()
    print(json.dumps({"cpu_s": cpu_s, "wall_s": wall_s}))


if __name__ == "__main__":
    anyio.run(read, *map(int, sys.argv[1:]), backend_options={"use_uvloop": True})
