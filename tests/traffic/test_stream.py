"""Streams as servers really send them, from a real socket of loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from specbench.facts import RequestRow
from specbench.traffic.requests import TimedRequest
from specbench.traffic.stream import Address, Connection
from tests.conftest import CAPTURES

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
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


def exchange(serve: Serve, *, times: int = 1, timeout_s: float = 5.0) -> list[RequestRow]:
    async def run() -> list[RequestRow]:
        serving: list[asyncio.Task[None]] = []

        async def tracked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            serving.append(task)
            try:
                await serve(reader, writer)
            finally:
                writer.close()
                await writer.wait_closed()

        server = await asyncio.start_server(tracked, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        connection = Connection(Address("127.0.0.1", port))
        async with server:
            made = [await connection.stream(REQUEST, timeout_s=timeout_s) for _ in range(times)]
            connection.close()
            await asyncio.wait(serving)
        return [exchange.row() for exchange in made]

    return asyncio.run(run())


def test_a_whole_stream_is_a_success_with_exact_usage() -> None:
    body = (ROLE, event("a"), event(" b c", ids="[2,3]"), event("", ids="[4,5]", finish='"length"'))
    (row,) = exchange(answers(HEAD, *map(chunk, body), chunk(USAGE), chunk(DONE) + END))
    assert (row.status, row.error, row.http_status) == ("ok", None, 200)
    assert (row.prompt_tokens, row.completion_tokens, row.finish_reason) == (7, 5, "length")
    assert row.event_tokens == (1, 2, 2)
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

    (row,) = exchange(serve)
    assert row.first_event_ns is not None
    assert row.first_payload_ns is not None
    assert row.first_payload_ns - row.first_event_ns > 40_000_000


def test_tokens_without_text_stamp_first_tokens_but_not_the_first_payload() -> None:
    body = (event("", ids="[9]"), event("a", finish='"stop"'))
    (row,) = exchange(answers(HEAD, *map(chunk, body), chunk(USAGE) + END))
    assert row.first_tokens_ns == row.event_ns[0]
    assert row.first_payload_ns == row.event_ns[1]


def test_several_events_in_one_read_are_marked_as_merged() -> None:
    body = chunk(event("a") + event("b") + event("c", finish='"stop"') + USAGE) + END
    (row,) = exchange(answers(HEAD + body))
    assert len(row.event_ns) == 3
    assert row.merged_events == 2


def test_one_event_over_many_reads_is_one_event() -> None:
    body = HEAD + chunk(event("word", finish='"stop"')) + chunk(USAGE) + END
    (row,) = exchange(answers(*(body[place : place + 7] for place in range(0, len(body), 7))))
    assert (row.status, len(row.event_ns)) == ("ok", 1)


def test_a_connection_carries_one_request_after_another() -> None:
    body = (HEAD, chunk(event("a", finish='"stop"')), chunk(USAGE), END)
    rows = exchange(answers(*body), times=3)
    assert [row.status for row in rows] == ["ok"] * 3


def test_events_without_token_ids_in_one_read_are_merged_too() -> None:
    plain = event("a", ids="null") + event("b", ids="null", finish='"stop"')
    (row,) = exchange(answers(HEAD + chunk(ROLE + plain + USAGE) + END))
    assert (row.event_tokens, row.merged_events) == ((None, None), 1)


def test_a_connection_that_the_server_means_to_close_is_opened_again() -> None:
    closing = HEAD.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    body = (closing, chunk(event("a", finish='"stop"')), chunk(USAGE), END)
    rows = exchange(answers(*body, close=True), times=3)
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
    (row,) = exchange(answers(*writes))
    assert row.status == status
    assert row.error is not None
    assert said in row.error


def test_a_reset_in_mid_stream_is_a_lost_connection() -> None:
    (row,) = exchange(answers(HEAD, chunk(event("a")), close=True))
    assert row.status == "connection_lost"
    assert len(row.event_ns) == 1


def test_a_server_that_nobody_runs_is_a_lost_connection() -> None:
    async def run() -> RequestRow:
        server = await asyncio.start_server(answers(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        return (await Connection(Address("127.0.0.1", port)).stream(REQUEST, timeout_s=1)).row()

    row = asyncio.run(run())
    assert (row.status, "cannot connect" in str(row.error)) == ("connection_lost", True)


def test_a_silent_server_times_out() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    (row,) = exchange(serve, timeout_s=0.1)
    assert (row.status, row.http_status) == ("timeout", None)


@pytest.mark.parametrize(
    "path", sorted(CAPTURES.glob("*/*/stream.sse")), ids=lambda p: p.parent.name
)
def test_a_recorded_stream_of_vllm_becomes_a_whole_row(path) -> None:
    (row,) = exchange(answers(HEAD, chunk(path.read_bytes()), END))
    assert (row.status, row.finish_reason) == ("ok", "length")
    assert row.completion_tokens in (48, 64, 128)


def test_only_plain_http_addresses_are_taken() -> None:
    assert Address.of("http://127.0.0.1:81/v1") == Address("127.0.0.1", 81)
    with pytest.raises(ValueError, match="no plain http"):
        Address.of("https://127.0.0.1")
