"""A server of loopback that sends what a test wants, and a client that takes it in."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from ssl import SSLContext

from specbench.client_facts import ClockKind
from specbench.experiment.load import Timeouts
from specbench.facts import RequestRow
from specbench.traffic.address import Address
from specbench.traffic.connection import Connection, Reading
from specbench.traffic.exchange import Exchange
from specbench.traffic.requests import TimedRequest
from specbench.traffic.stream import connection

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
PATIENT = Timeouts(request_s=5)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
ROLE = b'data: {"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5}}\n\n'
DONE = b"data: [DONE]\n\n"
END = b"0\r\n\r\n"


def request(index: int = 0) -> TimedRequest:
    return TimedRequest(
        request_id=f"r{index}",
        index=index,
        prompt_id="p0",
        pass_index=0,
        wire=b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
    )


def chunk(body: bytes) -> bytes:
    return f"{len(body):x}\r\n".encode() + body + b"\r\n"


def event(text: str, *, ids: str = "[1]", finish: str = "null") -> bytes:
    return (
        f'data: {{"choices":[{{"delta":{{"content":"{text}"}},"token_ids":{ids},'
        f'"finish_reason":{finish}}}]}}\n\n'
    ).encode()


WHOLE = HEAD + chunk(event("a")) + chunk(event("b", finish='"stop"')) + chunk(USAGE) + END


def answers(*writes: bytes, close: bool = False) -> Serve:
    """Answer every request with the same writes, each drained before the next."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            for body in writes:
                writer.write(body)
                await writer.drain()
                await asyncio.sleep(0)
            if close:
                break

    return serve


def stalls(*writes: bytes) -> Serve:
    """Answer with the writes, then say nothing until the client goes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        writer.write(b"".join(writes))
        await reader.read()

    return serve


@asynccontextmanager
async def serving(
    serve: Serve, *, host: str = "127.0.0.1", tls: SSLContext | None = None
) -> AsyncIterator[int]:
    """Serve for the length of the block, and give the port."""
    tasks: list[asyncio.Task[None]] = []

    async def tracked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        with suppress(ConnectionError):
            await serve(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(tracked, host, 0, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]
        if tasks:
            await asyncio.wait(tasks)


async def send(one: Connection, index: int = 0) -> Exchange:
    """Send one request over a connection, opened where it is not, and wait for its end."""
    done: asyncio.Future[Exchange] = asyncio.get_running_loop().create_future()
    if not one.is_open:
        await one.open()
    one.start(Exchange(request(index), done.set_result, time.perf_counter_ns()))
    return await done


def exchanged(
    serve: Serve, *, times: int = 1, timeouts: Timeouts = PATIENT, clock: ClockKind = "kernel"
) -> list[Exchange]:
    """Send one request after the other over one connection, and give what became of them."""

    async def run() -> list[Exchange]:
        async with serving(serve) as port:
            one = connection(Reading(Address("127.0.0.1", port), timeouts, clock))
            made = [await send(one) for _ in range(times)]
            one.close()
        return made

    return asyncio.run(run())


def rows_of(
    serve: Serve, *, times: int = 1, timeouts: Timeouts = PATIENT, clock: ClockKind = "kernel"
) -> list[RequestRow]:
    made = exchanged(serve, times=times, timeouts=timeouts, clock=clock)
    return [finished.row() for finished in made]
