"""An open load from the document to the page, on the simulated engine."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from specbench.errors import ExperimentError
from specbench.experiment.read import ReadExperiment
from specbench.planned_cell import planned_cells
from specbench.store.store import opened, rows
from tests.conftest import SMALL, FinishedRun, run_cli, shared_run

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
    from tests.conftest import write_small

    result = run_cli("plan", write_small(tmp_path, OPEN.replace("[40]", "[2.5, 40]")))
    assert result.exit_code == 0, result.output
    assert "mixed-greedy-r2.5 (12)" in result.output
