from __future__ import annotations

import asyncio
import gc
import itertools
import json
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from specbench.experiment.load import Timeouts
from specbench.experiment.model import Gates, Sampling
from specbench.experiment.prompt import Prompt, Turn
from specbench.facts import Window
from specbench.judge import client
from specbench.traffic import kernel_clock
from specbench.traffic.absolute_timer import AbsoluteTimer
from specbench.traffic.drive import drive
from specbench.traffic.loops import LoadPoint, driver
from specbench.traffic.requests import Wording, measured
from tests.traffic.faulty_server import (
    END,
    HEAD,
    WHOLE,
    Serve,
    answers,
    chunk,
    event,
    request,
    serving,
)

MS = 1_000_000


def driven(
    serve: Serve,
    count: int,
    *,
    concurrency: int | None = None,
    arrivals_ns: tuple[int, ...] = (),
    max_in_flight: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Window:
    async def run() -> Window:
        async with serving(serve) as port:
            asked = LoadPoint(
                base_url=f"http://127.0.0.1:{port}",
                timeouts=Timeouts(request_s=10),
                concurrency=concurrency,
                arrivals_ns=arrivals_ns,
                max_in_flight=max_in_flight,
            )
            return await drive([request(index) for index in range(count)], asked, stop=stop)

    return asyncio.run(run())


def outcomes(window: Window, max_in_flight: int | None = None, **gates: float) -> dict[str, str]:
    required = Gates(**{"client_lag_p99_ms": 1000, "client_cpu_share": 9} | gates)
    ruled = client.limits(window.rows, window.client, required, max_in_flight=max_in_flight)
    return {verdict.gate: verdict.outcome for verdict in ruled}


def slow(seconds: float) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            await asyncio.sleep(seconds)
            writer.write(WHOLE)

    return serve


def test_a_closed_load_keeps_so_many_in_flight_and_sends_each_once() -> None:
    window = driven(slow(0.01), 12, concurrency=3)
    assert [row.index for row in window.rows] == list(range(12))
    assert {row.status for row in window.rows} == {"ok"}
    assert window.client.reached_in_flight == 3
    assert (window.concurrency, window.clock) == (3, "kernel")
    assert all(row.scheduled_ns is None for row in window.rows)
    assert outcomes(window) == dict.fromkeys(
        ("unavailable", "client_limited", "client_clock", "merged_reads"), "pass"
    ) | {"merged_reads": "undecided"}  # the server sends its answer in one write


@pytest.mark.parametrize("load", [{"concurrency": 4}, {"arrivals_ns": (0, 0, MS)}])
def test_a_drive_that_is_over_is_freed_at_once(load: dict[str, Any]) -> None:
    """It holds a sample of every read; a window collects no garbage, and the next one grows."""

    async def run() -> None:
        async with serving(slow(0)) as port:
            url = f"http://127.0.0.1:{port}"
            point = LoadPoint(base_url=url, timeouts=Timeouts(), **{"concurrency": None} | load)
            over = driver([request(index) for index in range(3)], point)
            held = weakref.ref(over)
            assert len((await over.run()).rows) == 3
            gc.disable()
            try:
                del over
                assert held() is None
            finally:
                gc.enable()

    asyncio.run(run())


def test_an_open_load_sends_at_its_instants_however_slow_the_answers() -> None:
    arrivals = tuple(place * 5 * MS for place in range(20))
    window = driven(slow(0.2), 20, arrivals_ns=arrivals, max_in_flight=100)
    assert {row.status for row in window.rows} == {"ok"}
    start = window.rows[0].scheduled_ns
    assert [row.scheduled_ns - start for row in window.rows] == list(arrivals)
    assert all(row.scheduled_ns <= row.called_ns <= row.sent_ns for row in window.rows)
    # Answers take 200 ms, arrivals are over after 95: nothing waited.
    assert window.client.reached_in_flight == 20
    assert window.concurrency is None


def test_a_request_that_waits_for_a_connection_counts_from_its_instant() -> None:
    window = driven(slow(0.05), 4, arrivals_ns=(0, 0, 0, 0), max_in_flight=1)
    waits_ms = [(row.sent_ns - row.scheduled_ns) / MS for row in window.rows]
    assert waits_ms[3] >= 150
    assert window.client.reached_in_flight == 1
    found = outcomes(window, 1, client_dispatch_p99_ms=5)
    assert (found["client_limited"], found["server_saturated"]) == ("pass", "undecided")


def test_a_late_client_is_told_apart_from_a_server_that_is_gone() -> None:
    window = driven(answers(WHOLE), 4, concurrency=2)
    late = outcomes(window, client_lag_p99_ms=1e-9)
    assert (late["client_limited"], late["unavailable"]) == ("fail", "pass")
    gone = outcomes(driven(answers(close=True), 4, concurrency=2), client_lag_p99_ms=1e-9)
    assert (gone["client_limited"], gone["unavailable"]) == ("undecided", "fail")
    busy = answers(b"HTTP/1.1 503 x\r\ncontent-length: 0\r\n\r\n")
    assert outcomes(driven(busy, 4, concurrency=2))["unavailable"] == "fail"


def test_a_loop_that_is_held_up_shows_where_its_reads_merge() -> None:
    """Events pile up in one read: its last stamp is fresh, and only the timer knows of the stall."""

    async def steady(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        await asyncio.sleep(0.02)
        until_ns = time.perf_counter_ns() + 60 * MS
        while time.perf_counter_ns() < until_ns:
            pass
        writer.write(WHOLE)

    window = driven(steady, 1, concurrency=1)
    assert window.client.loop_lag_p99_s > 0.02
    assert outcomes(window, client_lag_p99_ms=20)["client_limited"] == "fail"


def test_a_server_that_refuses_connections_gives_rows_that_say_so() -> None:
    async def run() -> Window:
        async with serving(answers(WHOLE)) as port:
            pass
        asked = LoadPoint(base_url=f"http://127.0.0.1:{port}", timeouts=Timeouts(), concurrency=2)
        return await drive([request(index) for index in range(5)], asked)

    window = asyncio.run(run())
    assert [row.status for row in window.rows] == ["connection_lost"] * 5
    assert all("cannot connect" in str(row.error) for row in window.rows)
    assert outcomes(window)["unavailable"] == "fail"


@pytest.mark.parametrize("arrivals_ns", [(), tuple(range(0, 400 * MS, 20 * MS))])
def test_a_stopped_drive_sends_no_more_and_waits_for_what_is_in_flight(
    arrivals_ns: tuple[int, ...],
) -> None:
    asked: list[None] = []

    def stop() -> bool:
        asked.append(None)
        return len(asked) > 5

    closed = None if arrivals_ns else 2
    window = driven(slow(0.01), 20, concurrency=closed, arrivals_ns=arrivals_ns, stop=stop)
    assert 2 <= len(window.rows) < 20
    assert {row.status for row in window.rows} == {"ok"}


def test_a_step_of_the_wall_clock_is_noticed_and_rejects_the_window(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The wall clock is set forward by 2 s under the drive: later stamps seem to come too late."""
    offset, error = kernel_clock.measured_offset()
    calls: list[None] = []

    def stepped() -> tuple[int, int]:
        calls.append(None)
        return offset + (2_000_000_000 if len(calls) > 2 else 0), error

    monkeypatch.setattr(kernel_clock, "measured_offset", stepped)
    window = driven(slow(0.01), 4, concurrency=1)
    assert window.client.clock_step_s == 2.0
    assert outcomes(window)["client_clock"] == "fail"


def test_a_growing_queue_is_a_saturated_server_not_a_late_client() -> None:
    turn = asyncio.Lock()

    async def one_at_a_time(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            async with turn:
                await asyncio.sleep(0.015)
            writer.write(WHOLE)

    arrivals = tuple(place * 4 * MS for place in range(50))
    window = driven(one_at_a_time, 50, arrivals_ns=arrivals, max_in_flight=100)
    found = outcomes(window, 100, client_dispatch_p99_ms=1000)
    assert (found["client_limited"], found["server_saturated"]) == ("pass", "undecided")
    steady = driven(slow(0.002), 50, arrivals_ns=arrivals, max_in_flight=100)
    assert outcomes(steady, 100, client_dispatch_p99_ms=1000)["server_saturated"] == "pass"


def test_an_answer_of_headers_only_ends_at_the_time_out() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)
        writer.write(HEAD)
        await reader.read()

    async def run() -> Window:
        async with serving(silent) as port:
            asked = LoadPoint(
                base_url=f"http://127.0.0.1:{port}",
                timeouts=Timeouts(request_s=0.05),
                concurrency=1,
            )
            return await drive([request(0), request(1)], asked)

    assert [row.error for row in asyncio.run(run()).rows] == ["not complete after 0.05 s"] * 2


def test_the_timer_is_not_early_and_finer_than_a_millisecond() -> None:
    async def run() -> list[int]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        late: list[int] = []
        due = [time.perf_counter_ns() + 3 * MS]

        def fire() -> None:
            late.append(time.perf_counter_ns() - due[0])
            if len(late) == 20:
                done.set_result(None)
            else:
                due[0] += 1_300_000
                timer.at(due[0])

        timer = AbsoluteTimer(fire)
        timer.at(due[0])
        await done
        timer.close()
        return late

    late = asyncio.run(run())
    assert min(late) >= 0
    # The quarter that came best, on a machine that others use.
    assert sorted(late)[5] < 900_000


def conversation(answers_fail: bool = False) -> tuple[Window, list[list[str]]]:
    """Drive two conversations of three turns in one stream, and give what the server was told."""
    told: list[list[str]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.readuntil(b"\r\n\r\n"):
            size = int(head.partition(b"Content-Length: ")[2].split()[0])
            body = json.loads(await reader.readexactly(size))
            told.append([message["content"] for message in body["messages"]])
            reasons = b'data: {"choices":[{"delta":{"reasoning":"hm"},"finish_reason":null}]}\n\n'
            last = event(f"!{len(told)}", finish='"stop"')
            if answers_fail and len(told) == 2:
                last = b'data: {"error":{"message":"broken"}}\n\n'
            writer.write(HEAD + chunk(reasons) + chunk(event("so")) + chunk(last) + END)

    def talk(name: str) -> Prompt:
        turns = tuple(Turn(user=f"{name}{turn}") for turn in range(3))
        return Prompt(id=name, stratum="s", turns=turns, max_tokens=4, source="t", licence="x")

    wording = Wording(host="x", path="/", model="m", sampling=Sampling(name="greedy"), salt="r/d/c")

    async def run() -> Window:
        async with serving(serve) as port:
            asked = LoadPoint(
                base_url=f"http://127.0.0.1:{port}", timeouts=Timeouts(request_s=10), concurrency=1
            )
            return await drive(measured([talk("a"), talk("b")], 2, wording), asked)

    return asyncio.run(run()), told


def test_each_turn_is_a_row_upon_the_served_answer_without_its_reasoning() -> None:
    window, told = conversation()
    assert told[:3] == [["a0"], ["a0", "so!1", "a1"], ["a0", "so!1", "a1", "so!2", "a2"]]
    rows = window.rows
    assert [(r.prompt_id, r.turn, r.index) for r in rows] == [
        (name, turn, 3 * place + turn) for place, name in enumerate("ab") for turn in range(3)
    ]
    assert [o.text for o in window.outputs[:2]] == ["hmso!1", "hmso!2"]
    # One stream: a turn is taken up after the answer before it, and timed from its own send.
    assert all(a.ended_ns <= b.called_ns <= b.sent_ns for a, b in itertools.pairwise(rows))
    assert window.client.reached_in_flight == 1


def test_a_failed_turn_ends_its_conversation_and_not_the_drive() -> None:
    window, told = conversation(answers_fail=True)
    assert [(r.prompt_id, r.turn, r.status) for r in window.rows] == [
        ("a", 0, "ok"),
        ("a", 1, "stream_error"),
        *(("b", turn, "ok") for turn in range(3)),
    ]
    assert told[2] == ["b0"]
