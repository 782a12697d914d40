"""An open load from the document to the page, on the simulated engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from specbench.errors import ExperimentError
from specbench.experiment.read import ReadExperiment, read_experiment
from specbench.methods import Method
from specbench.planned_cell import planned_cells, sent_order
from specbench.store.store import opened, rows
from tests.conftest import SMALL, FinishedRun, run_cli, shared_run, write_small

CLOSED = "load: {closed: {concurrency: [1, 4], requests: {1: 6, 4: 12}}}"
GATES = "gates:\n  achieved_rate: 0.1\n  client_dispatch_p99_ms: 1000\n"
OPEN = (
    SMALL.replace(CLOSED, "load: {open: {rate: [40], requests: 12}}")
    .replace("blocks: 2", "blocks: 1")
    .replace("gates:\n", GATES)
)
NGRAM = (
    '  - {name: "ngram-k{num_speculative_tokens}", method: ngram, num_speculative_tokens: [3]}\n'
)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    return shared_run(tmp_path_factory, "open_load", OPEN.replace(NGRAM, ""))


def test_cells_are_named_by_their_rate_and_keep_what_was_scheduled(ran: FinishedRun) -> None:
    with opened(ran.results) as connection:
        cells = rows(connection, "select * from cells")
        requests = rows(connection, "select * from requests")
        effects = rows(connection, "select distinct concurrency, arrival_rate from effects")
    assert {cell["cell_id"].rpartition("/")[2] for cell in cells} == {"mixed-greedy-r40"}
    assert {cell["concurrency"] for cell in cells} == {None}
    assert {cell["arrival_rate"] for cell in cells} == {40.0}
    assert all(cell["ttft_scheduled_p50_s"] >= cell["ttft_p50_s"] > 0 for cell in cells)
    assert all(cell["client_dispatch_p95_s"] >= 0 for cell in cells)
    assert all(row["scheduled_ns"] <= row["called_ns"] <= row["sent_ns"] for row in requests)
    assert effects == [{"concurrency": None, "arrival_rate": 40.0}]


def test_every_arm_meets_the_same_arrivals(ran: FinishedRun) -> None:
    with opened(ran.results) as connection:
        found = rows(
            connection,
            "select cell_id, list(scheduled_ns order by index) as due from requests "
            "where cell_id like '%r40' group by cell_id",
        )
    schedules = {tuple(instant - row["due"][0] for instant in row["due"]) for row in found}
    assert (len(found), len(schedules)) == (2, 1)


def test_the_page_shows_the_arrival_rate(ran: FinishedRun) -> None:
    (page,) = (ran.folder / "reports").glob("*.html")
    assert "arrival rate (requests/s)" in page.read_text()


def test_a_cell_says_how_the_client_fared(ran: FinishedRun) -> None:
    cell = next(ran.run.glob("b01-*/mixed-greedy-r40/cell.json"))
    said = json.loads(cell.read_text())
    assert said["client"]["reached_in_flight"] >= 1
    assert said["arrival_rate"] == 40


def test_a_trace_names_its_own_rate(
    read_small: Callable[..., ReadExperiment], tmp_path: Path
) -> None:
    (tmp_path / "trace.txt").write_text("0\n0.5\n4\n")
    document = SMALL.replace(CLOSED, "load: {open: {arrivals: trace, trace: trace.txt}}")
    (cell,) = planned_cells(read_small(document))
    assert (cell.name, cell.requests) == ("mixed-greedy-r0.75", 3)
    assert cell.arrivals_ns == (0, 500_000_000, 4_000_000_000)
    (tmp_path / "trace.txt").write_text("1\n0.5\n")
    with pytest.raises(ExperimentError, match=r"trace.txt:2: '0.5' is no instant"):
        read_small(document)


REPLAY = SMALL.replace(CLOSED, "load: {open: {arrivals: workload}}")


def at(folder: Path, *instants_s: float | None) -> None:
    """Give the small prompts their arrivals, in the order of the file."""
    lines = (folder / "small.jsonl").read_text().splitlines()
    timed = [
        json.dumps({**json.loads(line), "arrival_s": instant_s})
        for line, instant_s in zip(lines, instants_s, strict=True)
    ]
    (folder / "small.jsonl").write_text("\n".join(timed))


def test_a_workload_is_replayed_in_the_order_and_at_the_instants_of_its_arrivals(
    tmp_path: Path, methods: Mapping[str, Method[Any]]
) -> None:
    document = write_small(tmp_path, REPLAY)
    at(tmp_path, 7.5, 5, 6, 5, 9, 7)
    read = read_experiment(document, methods)
    (cell,) = planned_cells(read)
    # Six arrivals over the 4 s after the first one, which is at 5 s.
    assert (cell.name, cell.requests) == ("mixed-greedy-r1.5", 6)
    assert cell.arrivals_ns == tuple(round(1e9 * s) for s in (0, 0, 1, 2, 2.5, 4))
    assert [p.id for p in sent_order(read, "mixed")] == ["p1", "p3", "p2", "p5", "p0", "p4"]
    document.write_text(REPLAY.replace("workload}", "workload, duration_s: 2.2}"))
    (cell,) = planned_cells(read_experiment(document, methods))
    assert cell.requests == 4


def test_every_prompt_of_a_replay_is_sent_at_its_own_instant(tmp_path: Path) -> None:
    alone = REPLAY[: REPLAY.index("  - {name: ")] + "  - {name: baseline, method: baseline}\n"
    alone += REPLAY[REPLAY.index("workloads:") : REPLAY.index("correctness:")] + "gates:\n"
    alone = alone.replace("blocks: 2", "blocks: 1") + GATES.replace("gates:\n", "")
    spec = write_small(tmp_path, alone)
    at(tmp_path, 0.3, 0.1, 0.2, 0.15, 0.5, 0.4)
    places = [f"--{name}" for name in ("runs", "results", "reports")]
    run_cli("run", spec, *(part for place in places for part in (place, tmp_path / place[2:])))
    with opened(tmp_path / "results") as connection:
        found = rows(connection, 'select prompt_id, scheduled_ns from requests order by "index"')
    assert [row["prompt_id"] for row in found] == ["p1", "p3", "p2", "p0", "p5", "p4"]
    since_first = [(row["scheduled_ns"] - found[0]["scheduled_ns"]) / 1e9 for row in found]
    assert since_first == pytest.approx([0, 0.05, 0.1, 0.2, 0.3, 0.4])


def test_a_workload_without_arrivals_cannot_be_replayed(
    tmp_path: Path, methods: Mapping[str, Method[Any]]
) -> None:
    document = write_small(tmp_path, REPLAY)
    at(tmp_path, 0, 1, None, 2, None, 3)
    said = r"small.yaml:\d+: load.open.arrivals: 2 of 6 prompts of stratum 'mixed' have no "
    with pytest.raises(ExperimentError, match=f"{said}arrival_s, the first is 'p2'"):
        read_experiment(document, methods)
    at(tmp_path, 3, 3, 3, 3, 3, 3)
    with pytest.raises(ExperimentError, match="arrive at one instant"):
        read_experiment(document, methods)


@pytest.mark.parametrize(
    ("load", "said"),
    [
        ("{}", "an experiment holds one kind of load; write either closed or open"),
        ("{closed: {concurrency: [1]}, open: {rate: [1], requests: 20}}", "one kind of load"),
        ("{open: {requests: 20}}", "every rate is above 0"),
        ("{open: {rate: [-1], requests: 20}}", "every rate is above 0"),
        ("{open: {rate: [1]}}", "duration_s or requests says how long"),
        ("{open: {rate: [1], duration_s: 5, requests: 5}}", "duration_s or requests says how long"),
        ("{open: {rate: [1], duration_s: 5}}", "at least 10 have to be expected"),
        ("{open: {arrivals: trace}}", "a trace is asked for, and none is named"),
        ("{open: {arrivals: trace, trace: nowhere.txt}}", "nowhere.txt cannot be read"),
        ("{open: {arrivals: workload, rate: [1]}}", "a workload has its own rate"),
        ("{open: {arrivals: workload, trace: x.txt}}", "write arrivals: trace"),
        ("{open: {rate: [9], requests: 20, trace: x.txt}}", "write arrivals: trace"),
    ],
)
def test_a_load_that_makes_no_sense_is_refused_with_its_line(
    read_small: Callable[..., ReadExperiment], load: str, said: str
) -> None:
    with pytest.raises(ExperimentError) as refused:
        read_small(SMALL.replace(CLOSED, f"load: {load}"))
    assert said in str(refused.value)
    assert "small.yaml:" in str(refused.value)


def test_a_plan_tells_the_rates(tmp_path: Path) -> None:
    result = run_cli("plan", write_small(tmp_path, OPEN.replace("[40]", "[2.5, 40]")))
    assert result.exit_code == 0, result.output
    assert "mixed-greedy-r2.5 (12)" in result.output
