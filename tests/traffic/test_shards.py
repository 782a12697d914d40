from __future__ import annotations

import asyncio
import sys
from array import array

import attrs
import pytest

from specbench.errors import MachineError
from specbench.experiment.load import Timeouts
from specbench.facts import Output, Window
from specbench.traffic import shards
from specbench.traffic.drive import drive
from specbench.traffic.loops import LoadPoint
from specbench.traffic.parts import Part, most_in_flight, window
from tests.conftest import row
from tests.traffic.faulty_server import WHOLE, answers, request, serving

MS = 1_000_000


def point(**changes) -> LoadPoint:
    base = LoadPoint(base_url="http://x", timeouts=Timeouts(request_s=10), concurrency=None)
    return attrs.evolve(base, **changes)


def test_shares_hold_every_request_once_and_the_whole_concurrency() -> None:
    requests = [request(index) for index in range(10)]
    found = shards.shares(requests, point(concurrency=7), 3)
    assert sorted(r.index for share in found for r in share.requests) == list(range(10))
    assert [share.point.concurrency for share in found] == [3, 2, 2]
    assert len(shards.shares(requests, point(concurrency=2), 8)) == 2


def test_shares_of_an_open_load_keep_each_requests_own_instant() -> None:
    requests = [request(index) for index in range(5)]
    found = shards.shares(requests, point(arrivals_ns=(0, 10, 20, 30, 40), max_in_flight=9), 2)
    pairs = [
        (r.index, at)
        for share in found
        for r, at in zip(share.requests, share.point.arrivals_ns, strict=True)
    ]
    assert sorted(pairs) == [(0, 0), (1, 10), (2, 20), (3, 30), (4, 40)]
    assert [share.point.max_in_flight for share in found] == [5, 4]


def part(*indexes: int, lag: tuple[int, ...], cpu_share: float = 0.1, step: int = 0) -> Part:
    outputs = tuple(
        Output(request_id=f"r{n}", prompt_id="p", text=f"{n}", token_ids=None, finish_reason=None)
        for n in indexes
    )
    return Part(
        rows=tuple(row(n, sent_ns=n * MS, ended_ns=(n + 3) * MS) for n in indexes),
        outputs=outputs,
        clock="kernel",
        started_unix_s=10.0 - indexes[0],
        event_loop="asyncio",
        cpu_share=cpu_share,
        lag_ns=array("q", lag),
        loop_lag_ns=array("q", [7]),
        dispatch_ns=array("q", [5]),
        unstamped_reads=1,
        clock_error_ns=60,
        clock_step_ns=step,
    )


def test_parts_merge_as_if_one_process_had_measured_them() -> None:
    halves = [part(0, 2, 4, lag=(1, 3), cpu_share=0.4), part(1, 3, lag=(2, 4, 5), step=-7)]
    merged = window(halves, 2)
    assert [r.index for r in merged.rows] == [0, 1, 2, 3, 4]
    assert [output.text for output in merged.outputs] == ["0", "1", "2", "3", "4"]
    # Sent a millisecond apart, each in flight for three.
    assert (most_in_flight(merged.rows), merged.client.reached_in_flight) == (3, 3)
    # The median of all samples, which is not the mean of the medians 2 and 4.
    assert merged.client.lag_p50_s == pytest.approx(3e-9)
    assert merged.client.loop_lag_p99_s == pytest.approx(7e-9)
    assert merged.client.cpu_share == 0.4
    assert merged.client.unstamped_reads == 2
    assert merged.client.clock_step_s == -7e-9
    assert merged.started_unix_s == 9.0


@pytest.mark.parametrize("arrivals_ns", [(), tuple(range(0, 40 * MS, 2 * MS))])
def test_two_processes_drive_one_window(arrivals_ns: tuple[int, ...]) -> None:
    seen = []

    async def run() -> Window:
        async with serving(answers(WHOLE)) as port:
            asked = point(
                base_url=f"http://127.0.0.1:{port}",
                concurrency=None if arrivals_ns else 4,
                arrivals_ns=arrivals_ns,
                max_in_flight=64,
                processes=2,
            )
            return await drive([request(n) for n in range(20)], asked, on_row=seen.append)

    merged = asyncio.run(run())
    assert [r.index for r in merged.rows] == list(range(20))
    assert {r.status for r in merged.rows} == {"ok"}
    assert merged.client.processes == 2
    assert len(seen) == 20
    if arrivals_ns:
        start = merged.rows[0].scheduled_ns
        assert [r.scheduled_ns - start for r in merged.rows] == list(arrivals_ns)


def test_a_stop_reaches_every_process() -> None:
    async def run() -> Window:
        async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(65536):
                await asyncio.sleep(0.02)
                writer.write(WHOLE)

        async with serving(endless) as port:
            asked = point(base_url=f"http://127.0.0.1:{port}", concurrency=2, processes=2)
            calls: list[None] = []

            def stop() -> bool:
                calls.append(None)
                return len(calls) > 6

            return await drive([request(n) for n in range(2000)], asked, stop=stop)

    merged = asyncio.run(run())
    assert 2 <= len(merged.rows) < 2000
    assert {r.status for r in merged.rows} == {"ok"}


@pytest.mark.parametrize(
    "script",
    ["raise SystemExit", "import sys; sys.stdout.write('ready\\n')"],
    ids=["early", "late"],
)
def test_a_process_that_is_lost_is_an_error_and_leaves_none_behind(script: str) -> None:
    share = shards.shares([request()], point(concurrency=1), 1)

    async def run() -> None:
        await shards.drive_shares(share, stop=lambda: False, command=[sys.executable, "-c", script])

    with pytest.raises(MachineError, match="ended before its part was done"):
        asyncio.run(run())


def test_instants_of_another_machine_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with serving(answers(WHOLE)) as port:
            asked = point(base_url=f"http://127.0.0.1:{port}", concurrency=1)
            await shards.drive_shares(shards.shares([request()], asked, 1), stop=lambda: False)

    monkeypatch.setattr(shards, "boot", lambda: "another")
    with pytest.raises(MachineError, match="another clock"):
        asyncio.run(run())
