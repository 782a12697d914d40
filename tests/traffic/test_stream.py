"""Streams as servers really send them, from a real socket of loopback, read with either clock."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import time
from pathlib import Path

import pytest

from specbench.client_facts import ClockKind
from specbench.experiment.load import Timeouts
from specbench.experiment.model import Gates
from specbench.facts import RequestRow
from specbench.judge import cells
from specbench.traffic.address import Address
from specbench.traffic.connection import Reading
from specbench.traffic.exchange import Exchange
from specbench.traffic.stream import connection, usable_clock
from tests.conftest import CAPTURES
from tests.traffic.faulty_server import (
    DONE,
    END,
    HEAD,
    ROLE,
    USAGE,
    WHOLE,
    answers,
    chunk,
    event,
    exchanged,
    request,
    rows_of,
    send,
    serving,
    stalls,
)

CLOCKS: tuple[ClockKind, ...] = ("kernel", "user")


def test_a_whole_stream_is_a_success_with_exact_usage() -> None:
    body = (ROLE, event("a"), event(" b c", ids="[2,3]"), event("", ids="[4,5]", finish='"length"'))
    (row,) = rows_of(answers(HEAD, *map(chunk, body), chunk(USAGE), chunk(DONE) + END))
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

    (row,) = rows_of(serve)
    assert row.first_event_ns is not None
    assert row.first_payload_ns is not None
    assert row.first_payload_ns - row.first_event_ns > 40_000_000


def test_tokens_without_text_stamp_first_tokens_but_not_the_first_payload() -> None:
    body = (event("", ids="[9]"), event("a", finish='"stop"'))
    (row,) = rows_of(answers(HEAD, *map(chunk, body), chunk(USAGE) + END))
    assert row.first_tokens_ns == row.event_ns[0]
    assert row.first_payload_ns == row.event_ns[1]


def test_several_events_in_one_read_are_marked_as_merged() -> None:
    body = chunk(event("a") + event("b") + event("c", finish='"stop"') + USAGE) + END
    (row,) = rows_of(answers(HEAD + body))
    assert len(row.event_ns) == 3
    assert row.merged_events == 2


def test_one_event_over_many_reads_is_one_event() -> None:
    body = HEAD + chunk(event("word", finish='"stop"')) + chunk(USAGE) + END
    (row,) = rows_of(answers(*(body[place : place + 7] for place in range(0, len(body), 7))))
    assert (row.status, len(row.event_ns)) == ("ok", 1)


def test_a_connection_carries_one_request_after_another() -> None:
    body = (HEAD, chunk(event("a", finish='"stop"')), chunk(USAGE), END)
    rows = rows_of(answers(*body), times=3)
    assert [row.status for row in rows] == ["ok"] * 3


def test_events_without_token_ids_in_one_read_are_merged_too() -> None:
    plain = event("a", ids="null") + event("b", ids="null", finish='"stop"')
    (row,) = rows_of(answers(HEAD + chunk(ROLE + plain + USAGE) + END))
    assert (row.event_tokens, row.merged_events) == ((None, None), 1)


def test_a_connection_that_the_server_means_to_close_is_opened_again() -> None:
    closing = HEAD.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n")
    body = (closing, chunk(event("a", finish='"stop"')), chunk(USAGE), END)
    rows = rows_of(answers(*body, close=True), times=3)
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
    (row,) = rows_of(answers(*writes))
    assert row.status == status
    assert row.error is not None
    assert said in row.error


def test_a_reset_in_mid_stream_is_a_lost_connection() -> None:
    (row,) = rows_of(answers(HEAD, chunk(event("a")), close=True))
    assert row.status == "connection_lost"
    assert len(row.event_ns) == 1


def test_a_silent_server_times_out() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    (row,) = rows_of(serve, timeouts=Timeouts(request_s=0.1))
    assert (row.status, row.http_status) == ("timeout", None)


@pytest.mark.parametrize(
    "path", sorted(CAPTURES.glob("*/*/stream.sse")), ids=lambda p: p.parent.name
)
def test_a_recorded_stream_of_vllm_becomes_a_whole_row(path) -> None:
    (row,) = rows_of(answers(HEAD, chunk(path.read_bytes()), END))
    assert (row.status, row.finish_reason) == ("ok", "length")
    assert row.completion_tokens in (48, 64, 128)


def test_an_event_of_a_megabyte_is_one_event() -> None:
    long = event("x" * 1_000_000, finish='"stop"')
    for clock in CLOCKS:
        (finished,) = exchanged(answers(HEAD, chunk(long), chunk(USAGE) + END), clock=clock)
        assert (finished.failure, len(finished.text), len(finished.event_ns)) == (
            None,
            1_000_000,
            1,
        )


REASONING = b'data: {"choices":[{"delta":{"reasoning_content":"hm "},"token_ids":[1]}]}\n\n'
NEW_REASONING = b'data: {"choices":[{"delta":{"reasoning":"so "},"token_ids":[2]}]}\n\n'
TOOL = (
    b'data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","type":"function",'
    b'"function":{"name":"f","arguments":"{}"}}]},"token_ids":[3]}]}\n\n'
)
STOP = b'data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}\n\n'
USAGE_WITH_CHOICE = (
    b'data: {"choices":[{"delta":{"content":"a"},"token_ids":[4],"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":7,"completion_tokens":1}}\n\n'
)
NULL_CHOICES = b'data: {"choices":null,"usage":{"prompt_tokens":7,"completion_tokens":5}}\n\n'


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize(
    ("body", "text", "events", "completion_tokens"),
    [
        ([REASONING, NEW_REASONING, TOOL, STOP, USAGE], "hm so f{}", 4, 5),
        ([ROLE, USAGE_WITH_CHOICE], "a", 1, 1),
        ([event("a", finish='"stop"'), NULL_CHOICES], "a", 1, 5),
        ([b": ping\n\n", event("a"), b": ping\n\n", event("b", finish='"stop"')], "ab", 2, None),
        ([event("a").replace(b"\n", b"\r\n"), event("b", finish='"stop"'), USAGE], "ab", 2, 5),
        ([event(""), event("a"), event("", ids="[]", finish='"length"'), USAGE], "a", 3, 5),
        ([b"event: x\nid: 7\n" + event("a", finish='"stop"'), USAGE], "a", 1, 5),
    ],
    ids=[
        "reasoning-and-tools",
        "usage-in-choice",
        "null-choices",
        "comments",
        "crlf",
        "empty",
        "fields",
    ],
)
def test_every_shape_of_stream_is_a_success_with_its_text(
    clock: ClockKind, body: list[bytes], text: str, events: int, completion_tokens: int | None
) -> None:
    (finished,) = exchanged(answers(HEAD, *map(chunk, body), END), clock=clock)
    row = finished.row()
    assert (row.status, row.error) == ("ok", None)
    assert finished.output().text == text
    assert (len(row.event_ns), row.completion_tokens) == (events, completion_tokens)


def test_chunked_trailers_and_a_length_instead_of_chunks_end_a_response() -> None:
    trailers = b"0\r\nx-trailer: 1\r\n\r\n"
    plain = event("a", finish='"stop"') + USAGE
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    sized = head + f"Content-Length: {len(plain)}\r\n\r\n".encode() + plain
    for whole in (HEAD + chunk(plain) + trailers, sized):
        rows = rows_of(answers(whole), times=2)
        assert [row.status for row in rows] == ["ok", "ok"]
    until_closed = head + b"Connection: close\r\n\r\n" + plain
    (row,) = rows_of(answers(until_closed, close=True))
    assert (row.status, row.completion_tokens) == ("ok", 5)


def test_an_interim_response_is_not_the_response() -> None:
    (row,) = rows_of(answers(b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE))
    assert (row.status, row.http_status) == ("ok", 200)


@pytest.mark.parametrize("clock", CLOCKS)
@pytest.mark.parametrize(
    ("serve", "status", "said"),
    [
        (
            answers(
                HEAD.replace(b"\r\n\r\n", b"\r\ncontent-encoding: gzip\r\n\r\n"), chunk(b"x"), END
            ),
            "stream_error",
            "compressed (gzip)",
        ),
        (
            answers(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
            ),
            "stream_error",
            "no event stream but application/json: {}",
        ),
        (
            answers(
                b"HTTP/1.1 503 Busy\r\ntransfer-encoding: chunked\r\n\r\n", chunk(b"later"), END
            ),
            "http_error",
            "HTTP 503: later",
        ),
        (answers(HEAD, chunk(event("a")), DONE, close=True), "stream_error", "malformed HTTP"),
        (answers(HEAD, chunk(event("a")), close=True), "connection_lost", "closed by the server"),
        (answers(close=True), "connection_lost", "closed by the server"),
        (stalls(), "timeout", "no first event after 0.2 s"),
        (stalls(HEAD, chunk(b": ping\n\n")), "timeout", "no first event after 0.2 s"),
        (stalls(HEAD, chunk(event("a"))), "timeout", "no event for 0.1 s"),
    ],
    ids=["gzip", "json", "503", "bad-chunk", "cut", "no-answer", "silent", "pings", "stalled"],
)
def test_a_fault_ends_as_a_failed_row_and_fails_the_gate(
    serve, status: str, said: str, clock: ClockKind
) -> None:
    limits = Timeouts(first_event_s=0.2, between_events_s=0.1, request_s=5)
    (row,) = rows_of(serve, timeouts=limits, clock=clock)
    assert row.status == status
    assert said in str(row.error)
    assert cells.ttft_s(row) is None
    assert cells.gates([row], 1, Gates())[0].outcome == "fail"


def test_a_kept_connection_that_closes_as_we_send_is_lost_and_says_so() -> None:
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        writer.write(WHOLE)
        await reader.read(65536)
        # The second request is here and gets no answer.

    first, second = rows_of(once, times=2)
    assert first.status == "ok"
    assert second.status == "connection_lost"
    assert "on a kept connection before an answer" in str(second.error)


def test_a_kept_connection_that_has_closed_is_opened_again() -> None:
    async def run() -> list[RequestRow]:
        closed = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(65536)
            writer.write(WHOLE)
            await writer.drain()
            writer.close()
            await writer.wait_closed()
            closed.set()

        async with serving(serve) as port:
            one = connection(Reading(Address("127.0.0.1", port), Timeouts(), "kernel"))
            rows = []
            for index in range(2):
                rows.append((await send(one, index)).row())
                await closed.wait()
                closed.clear()
            one.close()
        return rows

    assert [row.status for row in asyncio.run(run())] == ["ok", "ok"]


def test_a_request_larger_than_the_socket_takes_goes_out_whole() -> None:
    large = 8_000_000

    async def run() -> tuple[int, RequestRow]:
        got = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal got
            await asyncio.sleep(0.05)
            while got < large:
                got += len(await reader.read(1 << 20))
            writer.write(WHOLE)

        async with serving(serve) as port:
            one = connection(Reading(Address("127.0.0.1", port), Timeouts(request_s=20), "kernel"))
            await one.open()
            done: asyncio.Future[Exchange] = asyncio.get_running_loop().create_future()
            whole = Exchange(request(), done.set_result, time.perf_counter_ns())
            whole.request = type(whole.request)(
                request_id="r", index=0, prompt_id="p", pass_index=0, wire=b"x" * large
            )
            one.start(whole)
            finished = await done
            one.close()
        return got, finished.row()

    got, row = asyncio.run(run())
    assert (got, row.status) == (large, "ok")


def test_connecting_takes_no_longer_than_its_time_out() -> None:
    async def run() -> None:
        async with serving(answers()) as port:
            limits = Timeouts(connect_s=1e-9)
            with pytest.raises(TimeoutError, match="no connection after"):
                await connection(Reading(Address("127.0.0.1", port), limits, "kernel")).open()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:81/v1", Address("127.0.0.1", 81)),
        ("http://gate.example/some/path/", Address("gate.example", 80)),
        ("https://gate.example", Address("gate.example", 443, tls=True)),
        ("http://[::1]:8000", Address("::1", 8000)),
    ],
)
def test_a_base_url_gives_host_port_and_tls(url: str, address: Address) -> None:
    assert Address.of(url) == address


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:80", "http://"])
def test_what_is_no_url_of_a_server_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="no http or https URL"):
        Address.of(url)


def test_ipv6_is_a_host_like_any_other() -> None:
    async def run() -> RequestRow:
        async with serving(answers(WHOLE), host="::1") as port:
            one = connection(Reading(Address.of(f"http://[::1]:{port}"), Timeouts(), "kernel"))
            finished = await send(one)
            one.close()
        return finished.row()

    assert asyncio.run(run()).status == "ok"


def test_tls_is_read_by_the_loop_with_its_own_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    making = (
        f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout {key} "
        f"-out {certificate} -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(making.split(), check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    async def run() -> RequestRow:
        server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        server_side.load_cert_chain(certificate, key)
        async with serving(answers(WHOLE), tls=server_side) as port:
            address = Address.of(f"https://127.0.0.1:{port}")
            assert usable_clock(address) == "user"
            one = connection(Reading(address, Timeouts(), usable_clock(address)))
            finished = await send(one)
            one.close()
        return finished.row()

    assert asyncio.run(run()).status == "ok"


def test_kernel_stamps_lie_between_the_send_and_the_read() -> None:
    async def run() -> tuple[Reading, RequestRow]:
        async with serving(answers(WHOLE)) as port:
            address = Address("127.0.0.1", port)
            reading = Reading(address, Timeouts(), usable_clock(address))
            assert reading.clock == "kernel"
            one = connection(reading)
            finished = await send(one)
            one.close()
        return reading, finished.row()

    reading, row = asyncio.run(run())
    assert reading.unstamped_reads == 0
    assert all(lag >= 0 for lag in reading.lag_ns)
    assert row.sent_ns < row.event_ns[0] <= row.ended_ns


def test_a_loop_that_is_late_does_not_stamp_late() -> None:
    """The answer arrives while the loop is held for 50 ms: the kernel saw it before that ended."""
    held_ns = 50_000_000

    async def run() -> Reading:
        async with serving(answers(WHOLE)) as port:
            address = Address("127.0.0.1", port)
            reading = Reading(address, Timeouts(), usable_clock(address))
            one = connection(reading)
            await one.open()
            done: asyncio.Future[Exchange] = asyncio.get_running_loop().create_future()
            one.start(Exchange(request(), done.set_result, time.perf_counter_ns()))
            while not done.done():
                # Server and client share the loop: each turn may be the one of the answer.
                await asyncio.sleep(0)
                until_ns = time.perf_counter_ns() + held_ns
                while time.perf_counter_ns() < until_ns:
                    pass
            one.close()
        return reading

    reading = asyncio.run(run())
    assert max(reading.lag_ns) > held_ns * 0.9


def test_a_request_on_a_kept_connection_has_the_whole_of_its_own_limit() -> None:
    """One timer watches a connection: it is set for the first request, which leaves it behind."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        await asyncio.sleep(0.2)
        writer.write(WHOLE)
        await reader.read(65536)
        await reader.read(65536)

    first, second = rows_of(serve, times=2, timeouts=Timeouts(request_s=0.3))
    assert first.status == "ok"
    assert (second.status, second.error) == ("timeout", "not complete after 0.3 s")
    assert second.ended_ns - second.sent_ns >= 300_000_000


def test_silence_between_events_is_noticed_before_the_limit_of_a_first_event() -> None:
    limits = Timeouts(first_event_s=9, between_events_s=0.1, request_s=9)
    (row,) = rows_of(stalls(HEAD, chunk(event("a"))), timeouts=limits)
    assert (row.status, row.error) == ("timeout", "no event for 0.1 s")
    assert row.ended_ns - row.sent_ns < 5_000_000_000
