"""An HTTP proxy of loopback, in a thread of its own, that remembers what it was told and passed on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager, suppress

NAMED = "server.test"
"""A name that only the proxy knows: it is 127.0.0.1."""
ENDS = b"0\r\n\r\n"


class LoopbackProxy:
    """Passes on, answers with `refusal` instead, or keeps a response until it is whole."""

    def __init__(self, refusal: bytes | None, *, buffers: bool) -> None:
        self._refusal, self._buffers = refusal, buffers
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self.heads: list[str] = []
        """What it was asked, head by head."""
        self.passed = bytearray()
        """What servers got from it."""

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(10)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join(10)

    def lines(self) -> set[str]:
        """Give the request lines."""
        return {head.partition("\r\n")[0] for head in self.heads}

    async def _serve(self) -> None:
        self._loop, self._done = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._client, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._done.wait()
        server.close()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with AsyncExitStack() as stack:
            stack.callback(writer.close)
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._pass(reader, writer, stack)

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, stack: AsyncExitStack
    ) -> None:
        there: asyncio.StreamWriter | None = None
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.heads.append(head)
            method, url, *_ = head.split()
            lines = (line.partition(": ") for line in head.split("\r\n"))
            fields = {name.lower(): value for name, _, value in lines}
            body = await reader.readexactly(int(fields.get("content-length", 0)))
            if self._refusal is not None:
                told = fields.get("proxy-authorization", "").encode()
                writer.write(self._refusal.replace(b"TOLD", told))
                await writer.drain()
                return
            place, _, path = url.removeprefix("http://").partition("/")
            if there is None:
                host, _, port = place.rpartition(":")
                host = host.replace(NAMED, "127.0.0.1")
                answers, there = await asyncio.open_connection(host, int(port))
                stack.callback(there.close)
                stack.callback(asyncio.create_task(self._back(answers, writer)).cancel)
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                while said := await reader.read(65536):
                    self._on(there, said)
                return
            kept = [line for line in head.split("\r\n") if not line.lower().startswith("proxy-")]
            kept[0] = f"{method} /{path} HTTP/1.1"
            self._on(there, "\r\n".join(kept).encode() + body)

    def _on(self, server: asyncio.StreamWriter, said: bytes) -> None:
        self.passed += said
        server.write(said)

    async def _back(self, server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held = b""
        while said := await server.read(65536):
            held += said
            if not self._buffers or held.endswith(ENDS):
                writer.write(held)
                held = b""
        writer.close()


@contextmanager
def proxying(refusal: bytes | None = None, *, buffers: bool = False) -> Iterator[LoopbackProxy]:
    """Run a proxy for the length of the block. In a refusal TOLD is what authorizes the client."""
    proxy = LoopbackProxy(refusal, buffers=buffers)
    proxy.start()
    yield proxy
    proxy.stop()
