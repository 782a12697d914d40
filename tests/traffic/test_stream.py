"""Streams as servers really send them, from a real socket of loopback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from specbench.experiment.model import Timeouts
from specbench.facts import ClockKind, RequestRow
from specbench.traffic.address import Address
from specbench.traffic.exchange import Exchange
from specbench.traffic.requests import TimedRequest
from specbench.traffic.stream import Connection, Reading, connection
from tests.conftest import CAPTURES

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
PATIENT = Timeouts(request_s=5)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
REQUEST = TimedRequest(
    request_id="r0",
    index=0,
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


ROLE = b'data: {"choices":[{"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5}}\n\n'
DONE = b"data: [DONE]\n\n"
END = b"0\r\n\r\n"


def answers(*writes: bytes, close: bool = False) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            for body in writes:
                writer.write(body)
                await writer.drain()
                await asyncio.sleep(0)
            if close:
                break
        writer.close()

    return serve


def row_of(
    serve: Serve, *, times: int = 1, timeouts: Timeouts = PATIENT, clock: ClockKind = "kernel"
) -> list[RequestRow]:
    return [finished.row() for finished in exchanged(serve, times, timeouts, clock)]


def exchanged(
    serve: Serve, times: int = 1, timeouts: Timeouts = PATIENT, clock: ClockKind = "kernel"
) -> list[Exchange]:
    """Send one request after the other over one connection, and give what became of them."""

    async def run() -> list[Exchange]:
        serving: list[asyncio.Task[None]] = []

        async def tracked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            serving.append(task)
            try:
                await serve(reader, writer)
            finally:
                writer.close()
                with suppress(ConnectionError):
                    await writer.wait_closed()

        server = await asyncio.start_server(tracked, "127.0.0.1", 0)
        address = Address(*server.sockets[0].getsockname())
        one = connection(Reading(address, timeouts, clock))
        async with server:
            made = [await sent(one) for _ in range(times)]
            one.close()
            await asyncio.wait(serving)
        return made

    return asyncio.run(run())


async def sent(one: Connection) -> Exchange:
    """Send one request and wait for its end."""
    done: asyncio.Future[Exchange] = asyncio.get_running_loop().create_future()
    if not one.is_open:
        await one.open()
    one.start(Exchange(REQUEST, done.set_result, time.perf_counter_ns()))
    return await done


def test_a_whole_stream_is_a_success_with_exact_usage() -> None:
    body = (ROLE, event("a"), event(" b c", ids="[2,3]"), event("", ids="[4,5]", finish='"length"'))
    (row,) = row_of(answers(HEAD, *map(chunk, body), chunk(USAGE), chunk(DONE) + END))
    assert (row.status, row.error, row.http_status) == ("ok", None, 200)
    assert (row.prompt_tokens, row.completion_tokens, row.finish_reason) == (7, 5, "length")
    assert tuple(row.event_tokens) == (1, 2, 2)
    assert (
        row.called_ns <= row.sent_ns <= row.first_payload_ns <= row.last_payload_ns <= row.ended_ns
    )


def test_the_role_event_is_no_payload() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        writer.write(HEAD + chunk(ROLE))
        await writer.drain()
        await asyncio.sleep(0.05)
        writer.write(chunk(event("a", finish='"stop"')) + chunk(USAGE) + END)
        await writer.drain()
        writer.close()

    (row,) = row_of(serve)
    assert row.first_event_ns is not None
    assert row.first_payload_ns is not None
    assert row.first_payload_ns - row.first_event_ns > 40_000_000


def test_tokens_without_text_stamp_first_tokens_but_not_the_first_payload() -> None:
    body = (event("", ids="[9]"), event("a", finish='"stop"'))
    (row,) = row_of(answers(HEAD, *map(chunk, body), chunk(USAGE) + END))
    assert row.first_tokens_ns == row.event_ns[0]
    assert row.first_payload_ns == row.event_ns[1]


def test_several_events_in_one_read_are_marked_as_merged() -> None:
    body = chunk(event("a") + event("b") + event("c", finish='"stop"') + USAGE) + END
    (row,) = row_of(answers(HEAD + body))
    assert len(row.event_ns) == 3
    assert row.merged_events == 2


def test_one_event_over_many_reads_is_one_event() -> None:
    body = HEAD + chunk(event("word", finish='"stop"')) + chunk(USAGE) + END
    (row,) = row_of(answers(*(body[place : place + 7] for place in range(0, len(body), 7))))
    assert (row.status, len(row.event_ns)) == ("ok", 1)


def test_a_connection_carries_one_request_after_another() -> None:
    body = (HEAD, chunk(event("a", finish='"stop"')), chunk(USAGE), END)
    rows = row_of(answers(*body), times=3)
    assert [row.status for row in rows] == ["ok"] * 3


def test_events_without_token_ids_in_one_read_are_merged_too() -> None:
    plain = event("a", ids="null") + event("b", ids="null", finish='"stop"')
    (row,) = row_of(answers(HEAD + chunk(ROLE + plain + USAGE) + END))
    assert (row.event_tokens, row.merged_events) == ((None, None), 1)


def test_a_connection_that_the_server_means_to_close_is_opened_again() -> None:
    closing = HEAD.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    body = (closing, chunk(event("a", finish='"stop"')), chunk(USAGE), END)
    rows = row_of(answers(*body, close=True), times=3)
    assert [row.status for row in rows] == ["ok"] * 3


@pytest.mark.parametrize(
    ("writes", "status", "said"),
    [
        (
            (b'HTTP/1.1 400 Bad Request\r\ncontent-length: 14\r\n\r\n{"error": "x"}',),
            "http_error",
            'HTTP 400: {"error": "x"}',
        ),
        (
            (
                HEAD,
                chunk(event("a")),
                chunk(b'data: {"error": {"message": "boom"}}\n\n'),
                chunk(DONE) + END,
            ),
            "stream_error",
            "boom",
        ),
        ((HEAD, chunk(event("a")), chunk(DONE) + END), "incomplete", "without a finish_reason"),
        (
            (HEAD, chunk(b"data: {nonsense\n\n"), chunk(event("a", finish='"stop"')) + END),
            "stream_error",
            "malformed event",
        ),
        ((b"garbage that is no HTTP\r\n\r\n",), "stream_error", "malformed HTTP"),
    ],
)
def test_a_response_that_went_wrong_is_a_failure_with_its_reason(
    writes: tuple[bytes, ...], status: str, said: str
) -> None:
    (row,) = row_of(answers(*writes))
    assert row.status == status
    assert row.error is not None
    assert said in row.error


def test_a_reset_in_mid_stream_is_a_lost_connection() -> None:
    (row,) = row_of(answers(HEAD, chunk(event("a")), close=True))
    assert row.status == "connection_lost"
    assert len(row.event_ns) == 1


def test_a_silent_server_times_out() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    (row,) = row_of(serve, timeouts=Timeouts(request_s=0.1))
    assert (row.status, row.http_status) == ("timeout", None)


@pytest.mark.parametrize(
    "path", sorted(CAPTURES.glob("*/*/stream.sse")), ids=lambda p: p.parent.name
)
def test_a_recorded_stream_of_vllm_becomes_a_whole_row(path) -> None:
    (row,) = row_of(answers(HEAD, chunk(path.read_bytes()), END))
    assert (row.status, row.finish_reason) == ("ok", "length")
    assert row.completion_tokens in (48, 128)
