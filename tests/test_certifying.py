"""The client's certificate: made against a real paced server, kept, stored with the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
from rich.console import Console

from specbench import certifying
from specbench.artifacts import RunFolder
from specbench.cli.running import _certify
from specbench.client_facts import Certificate
from specbench.engines.known import ENGINES
from specbench.errors import MachineError
from specbench.experiment.model import Gates
from specbench.judge.client import certificate_verdicts
from specbench.plan import plan
from specbench.planned_cell import largest_load
from specbench.traffic.certificate import certify, machine
from tests.conftest import SMALL, FinishedRun, run_cli, write_small

LENIENT = Gates(client_lag_p99_ms=1000, client_cpu_share=4)


@pytest.fixture(scope="module")
def made() -> Certificate:
    return anyio.run(certify, 4, 800.0)


def test_a_certificate_compares_our_stamps_with_the_servers_own(made: Certificate) -> None:
    assert made.failed == 0
    assert (made.streams, made.client.reached_in_flight) == (4, 4)
    # Two waves of 4 streams, each of a second: 200 events at 5 ms.
    assert made.client.events == 2 * 4 * 200
    assert made.reached_events_per_s == pytest.approx(800, rel=0.1)
    # What came before it was sent would be two clocks, not one.
    assert 0 < made.event_error_p50_s < 0.001
    assert made.event_error_p50_s <= made.event_error_p99_s
    assert made.machine == machine()


@pytest.mark.parametrize(
    ("changes", "gates", "gate"),
    [
        ({"failed": 1}, {}, "certificate_load"),
        ({"reached_events_per_s": 700.0}, {}, "certificate_load"),
        ({}, {"client_lag_p99_ms": 1e-9}, "client_limited"),
        ({}, {"client_cpu_share": 1e-9}, "client_limited"),
    ],
)
def test_a_certificate_fails_by_the_gates_of_the_experiment(
    made: Certificate, changes: dict[str, Any], gates: dict[str, float], gate: str
) -> None:
    required = attrs.evolve(LENIENT, **gates)
    ruled = certificate_verdicts(attrs.evolve(made, **changes), required)
    assert [v.gate for v in ruled if v.outcome == "fail"] == [gate]


def test_a_certificate_is_kept_and_covers_smaller_loads(
    made: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked: list[tuple[int, float]] = []

    async def counted(streams: int, events_per_s: float, processes: int) -> Certificate:
        assert processes == 1
        asked.append((streams, events_per_s))
        client = attrs.evolve(made.client, reached_in_flight=streams)
        return attrs.evolve(made, streams=streams, events_per_s=events_per_s, client=client)

    monkeypatch.setattr(certifying.certificate, "certify", counted)
    first = certifying.certified(4, 800, LENIENT)
    assert certifying.certified(4, 800, LENIENT) == first
    assert certifying.certified(2, 100, LENIENT) == first
    assert asked == [(4, 800)]
    # More streams, a gate that the kept one fails, and a wish for a new one each make one; what
    # fails is tried once more.
    certifying.certified(5, 800, LENIENT)
    certifying.certified(4, 800, Gates(client_lag_p99_ms=1e-9))
    certifying.certified(4, 800, LENIENT, renew=True)
    assert asked[1:] == [(5, 800), (4, 800), (4, 800), (4, 800)]
    next(tmp_path.rglob("*.json")).write_text("{torn")
    monkeypatch.setattr(certifying, "KEPT_S", -1)
    certifying.certified(4, 800, LENIENT)
    assert len(asked) == 6


def test_a_run_keeps_the_certificate_of_its_largest_load(finished: FinishedRun) -> None:
    (path,) = finished.run.glob("certificate-*.json")
    said = json.loads(path.read_text())
    assert said["streams"] >= 4
    assert "is certified for 4 streams at 400 events/s" in finished.result.output


def test_a_real_engine_is_not_measured_by_a_client_that_fails(
    read_small: Any,
    methods: Any,
    made: Certificate,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    strict = SMALL.replace("client_lag_p99_ms: 1000", "client_lag_p99_ms: 0.000000001")
    planned = plan(read_small(strict), methods)
    real = attrs.evolve(planned, engine=ENGINES["vllm"])
    monkeypatch.setattr(certifying, "certified", lambda *_: made)
    folder, console = RunFolder(tmp_path), Console(record=True, width=300)
    with pytest.raises(MachineError, match="the client fails its certificate") as failed:
        _certify(real, folder, console, uncertified=False)
    assert (failed.value.exit_code, "--uncertified" in failed.value.hint) == (5, True)
    _certify(real, folder, console, uncertified=True)
    _certify(planned, folder, console, uncertified=False)
    assert console.export_text().count("note: the client is not certified") == 2


def test_the_command_says_what_was_shown_and_exits_with_7_when_a_gate_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(certifying, "TRIES", 1)
    spec = write_small(tmp_path)
    good = run_cli("certify", spec)
    assert good.exit_code == 0, good.output
    assert "certificate_load" in good.output
    strict = SMALL.replace("client_lag_p99_ms: 1000", "client_lag_p99_ms: 0.000000001")
    (tmp_path / "strict").mkdir()
    bad = run_cli("certify", write_small(tmp_path / "strict", strict), "--json")
    assert bad.exit_code == 7
    outcomes = {v["gate"]: v["outcome"] for v in json.loads(bad.output)["verdicts"]}
    assert outcomes["client_limited"] == "fail"


def test_the_largest_load_of_an_open_experiment_follows_from_its_tokens(read_small: Any) -> None:
    closed = "closed: {concurrency: [1, 4], requests: {1: 6, 4: 12}}"
    read = read_small(SMALL.replace(closed, "open: {rate: [5, 50], requests: 20}"))
    # 50 requests/s of 12 tokens are 600 events/s; at 10 ms an event 6 streams carry them.
    assert largest_load(read) == (6, 600)
