"""Each fault of the simulated server, and what follows from it in verdicts, rows and causes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.engines.simulated.faults import NAMES, Faults, due, parse
from specbench.errors import DeploymentError
from specbench.facts import Acceptance
from specbench.methods import Counting, Expected
from specbench.observe import metrics
from specbench.testing import Driven, simulated_server
from tests.conftest import SMALL, run_small

EAGLE = {"method": "eagle3", "model": "/models/head", "num_speculative_tokens": 3}
DRAFTING: dict[str, Any] = {
    "expected": Expected(methods=("eagle3",), longest_draft=3),
    "counting": Counting(every_step_drafts=True, full_depth=False),
}
SHORT = {"requests": 4, "max_tokens": 8}
"""Four requests, two at a time: the second and the fourth are those of `every=2`."""


def faulty(*faults: str, **asked: Any) -> Any:
    flags = {"speed": 40, "fault": faults, **asked.pop("flags", {})}
    return simulated_server(flags=flags, **asked)


def statuses(driven: Driven) -> list[str]:
    return [row.status for row in driven.rows]


def told(driven: Any, gate: str) -> str:
    return next(one.observed for one in driven.judged.verdicts if one.gate == gate)


def failed(driven: Driven) -> set[str]:
    return {gate for gate, outcome in driven.outcomes().items() if outcome == "fail"}


# Of the launch and of the process.


def test_a_refused_launch_has_its_cause() -> None:
    with (
        pytest.raises(DeploymentError, match="CUDA out of memory") as caught,
        faulty("refuse-launch=1"),
    ):
        pass
    assert caught.value.kind == "out_of_memory"
    assert "gpu-memory-utilization" in caught.value.hint


def test_a_slow_start_is_waited_for_and_costs_the_window_nothing() -> None:
    with faulty("slow-start-s=0.8") as server:
        assert float(server.audit().value("load_s") or 0) >= 0.8
        driven = server.drive(**SHORT)
    assert statuses(driven) == ["ok"] * 4
    assert failed(driven) == set()


def test_a_crash_loses_the_rest_and_its_cause_is_in_the_log() -> None:
    with faulty("crash-after=2") as server:
        driven = server.drive(**SHORT)
        assert server.until_ended() == 1
        cause = server.cause()
    assert statuses(driven).count("ok") <= 2
    assert set(statuses(driven)) <= {"ok", "connection_lost"}
    assert "connection_lost" in statuses(driven)
    assert {"success_rate", "counters", "settled"} <= failed(driven)
    assert told(driven, "counters") == "the server gave no counters after the window"
    assert cause.kind == "crash"
    assert cause.line == "RuntimeError: CUDA error: an illegal memory access was encountered"


def test_a_hang_times_out_and_never_settles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "SETTLE_TIMEOUT_S", 0.3)
    with faulty("hang-after=2") as server:
        driven = server.drive(**SHORT, timeout_s=1)
        assert server.exit_code is None
    assert statuses(driven).count("timeout") == 2
    assert {"success_rate", "settled"} <= failed(driven)


def test_a_run_goes_on_past_servers_that_fail_and_tells_why(tmp_path: Path) -> None:
    faults = "{SPECBENCH_FAULTS: 'ngram:refuse-launch=1, eagle3:crash-after=4'}"
    document = (
        SMALL.replace("flags: {speed: 20, seed: 3}", f"flags: {{speed: 20}}, env: {faults}")
        .replace("{concurrency: [1, 4], requests: {1: 6, 4: 12}}", "{concurrency: [1]}")
        .replace("blocks: 2", "blocks: 1")
        .replace("correctness: {workload: small.jsonl, captures: 2, concurrency: [2]}\n", "")
        .replace("{closed: {concurrency: [1]}}", "{closed: {concurrency: [1], requests: {1: 6}}}")
    )
    done = run_small(tmp_path, document, "--raw-only")
    closings = {
        closing["arm"]: closing
        for path in done.run.glob("*/deployment.json")
        if (closing := {"arm": path.parent.name[7:-3], **json.loads(path.read_text())})
    }
    assert closings["baseline"]["status"] == "complete"
    for arm, kind, line in (
        ("ngram-k3", "out_of_memory", "CUDA out of memory"),
        ("eagle-k3", "crash", "illegal memory access"),
    ):
        assert closings[arm]["status"] == "failed"
        assert closings[arm]["exit_code"] == 1
        assert closings[arm]["cause"]["kind"] == kind
        assert line in closings[arm]["reason"]


# Of the counters.


def test_counters_that_begin_again_reject_the_window() -> None:
    # With the last answer of the second window, so that the counters end below where they began.
    with faulty("reset-counters-after=8") as server:
        assert failed(server.drive(**SHORT)) == set()
        driven = server.drive(**SHORT)
    assert statuses(driven) == ["ok"] * 4
    assert failed(driven) == {"counters"}
    assert " went from " in told(driven, "counters")
    assert driven.judged.delta is None


def test_one_engine_that_begins_again_rejects_the_window() -> None:
    with faulty("restart-engine-after=8", flags={"data-parallel-size": 2}) as server:
        first = server.drive(**SHORT)
        assert first.judged.delta is not None
        assert first.judged.delta.engines == ("0", "1")
        driven = server.drive(**SHORT)
    # An engine that serves more after its restart than before overtakes its old counters: then the
    # tokens that are missing tell.
    assert failed(driven) in ({"counters"}, {"foreign_traffic"})
    if failed(driven) == {"counters"}:
        assert "engine=1" in told(driven, "counters")
    assert driven.judged.rejected


def test_counters_that_come_too_late_are_short_of_what_we_received() -> None:
    with faulty("late-counters-s=9") as server:
        driven = server.drive(**SHORT)
    assert failed(driven) == {"foreign_traffic"}
    assert told(driven, "foreign_traffic").startswith("server generated 0 tokens")


def test_counters_that_come_before_they_are_settled_are_whole() -> None:
    with faulty("late-counters-s=0.02") as server:
        driven = server.drive(**SHORT)
    assert failed(driven) == set()


def test_traffic_of_somebody_else_rejects_the_window() -> None:
    with faulty("foreign-every=2") as server:
        driven = server.drive(**SHORT)
    assert statuses(driven) == ["ok"] * 4
    assert failed(driven) == {"foreign_traffic"}
    ours = sum(row.completion_tokens or 0 for row in driven.rows)
    # It asks a second time what the second and the fourth request asked.
    theirs = sum(driven.rows[place].completion_tokens or 0 for place in (1, 3))
    assert told(driven, "foreign_traffic") == (
        f"server generated {ours + theirs} tokens, we received {ours}"
    )


def test_orders_of_labels_and_cuts_of_events_change_nothing() -> None:
    def seen(*faults: str) -> tuple[Acceptance | None, list[tuple[str, Any]]]:
        with faulty(*faults, speculation=EAGLE, flags={"data-parallel-size": 2}) as server:
            driven = server.drive(**SHORT, **DRAFTING)
        assert driven.outcomes()["counters"] == "pass"
        assert failed(driven) == set()
        outputs = [(output.text, output.token_ids) for output in driven.window.outputs]
        return driven.judged.acceptance, outputs

    plain = seen()
    assert plain[0] is not None
    assert plain[0].drafted > 0
    assert seen("shuffled-labels=1", "split-events=1") == plain


def test_a_clock_that_runs_fast_is_seen_and_rejects_nothing() -> None:
    # Ten times as fast: no lateness of a busy machine looks like it.
    with faulty("clock-drift=9", flags={"speed": 4}) as server:
        driven = server.drive(**SHORT)
    assert driven.outcomes()["server_clock"] == "undecided"
    assert not driven.judged.rejected


def test_preemptions_are_counted_and_lose_no_token() -> None:
    prompts = ["count the waves of the sea " * 12] * 8
    with faulty("kv-tokens=512", flags={"max-model-len": 256}) as server:
        driven = server.drive(prompts, max_tokens=96, concurrency=8)
    assert statuses(driven) == ["ok"] * 8
    assert failed(driven) == set()
    assert driven.judged.delta is not None
    assert driven.judged.delta.preemptions > 0


# Of single requests.


@pytest.fixture(scope="module")
def broken() -> Driven:
    """Seven requests, one after another: of each fault those whose number it divides."""
    faults = ("malformed-every=2", "stream-error-every=3", "reset-every=5", "http-500-every=7")
    with faulty(*faults) as server:
        return server.drive(requests=7, max_tokens=8, concurrency=1)


@pytest.mark.parametrize(
    ("number", "status", "error"),
    [
        (2, "stream_error", "malformed event"),
        (3, "stream_error", "simulated fault"),
        (5, "connection_lost", "Connection reset by peer"),
        (7, "http_error", "HTTP 500: "),
    ],
)
def test_a_broken_request_is_a_failed_row(
    number: int, status: str, error: str, broken: Driven
) -> None:
    row = broken.rows[number - 1]
    assert row.status == status
    assert error in (row.error or "")


def test_broken_requests_fail_the_gate_and_leave_foreign_traffic_open(broken: Driven) -> None:
    assert [place for place, row in enumerate(broken.rows, 1) if row.status == "ok"] == [1]
    assert failed(broken) == {"success_rate"}
    assert broken.outcomes()["foreign_traffic"] == "undecided"
    assert broken.judged.summary.successes == 1


def test_a_stalled_stream_times_out() -> None:
    with faulty("stall-every=4") as server:
        driven = server.drive(**SHORT, timeout_s=1)
    assert statuses(driven) == ["ok", "ok", "ok", "timeout"]
    assert driven.rows[3].error == "not complete after 1 s"
    # Its first token came.
    assert driven.rows[3].first_payload_ns is not None
    assert failed(driven) == {"success_rate"}


def test_a_lost_usage_withholds_the_throughput() -> None:
    with faulty("lost-usage-every=2") as server:
        driven = server.drive(**SHORT)
    assert statuses(driven) == ["ok"] * 4
    assert sorted(row.completion_tokens is None for row in driven.rows) == [
        False,
        False,
        True,
        True,
    ]
    assert driven.judged.summary.output_throughput is None
    assert driven.outcomes()["foreign_traffic"] == "undecided"
    assert "server_clock" not in driven.outcomes()


# Of what is written.

NUMBERS = st.floats(min_value=0, allow_infinity=False, allow_nan=False)


@given(st.dictionaries(st.sampled_from(sorted(NAMES)), NUMBERS), st.booleans())
def test_faults_that_are_written_are_those_that_are_read(
    asked: dict[str, float], together: bool
) -> None:
    texts = [f"{name}={number!r}" for name, number in asked.items()]
    found = parse([" , ".join(texts)] if together else texts, "ngram")
    wanted = {NAMES[name].name: number for name, number in asked.items()}
    assert found == Faults(**wanted)


@given(st.sampled_from(sorted(NAMES)), NUMBERS)
def test_a_fault_with_a_method_is_of_that_method_alone(name: str, number: float) -> None:
    text = f"draft_model:{name}={number!r}"
    assert parse([text], "draft_model") == Faults(**{NAMES[name].name: number})
    assert parse([text], "none") == Faults()


@given(st.text(alphabet="abcdefghijk-:", max_size=12).filter(lambda name: name not in NAMES))
def test_an_unknown_fault_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(ValueError, match="no fault") as caught:
        parse([f"{name}=1"], "none")
    assert str(caught.value).endswith(f"there are: {', '.join(NAMES)}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("crash-after", "fault 'crash-after' needs a number, such as crash-after=3"),
        ("crash-after=soon", "needs a number, such as crash-after=3"),
        ("ngram:crash-after=", "needs a number, such as crash-after=3"),
        ("crash-after=-1", "needs a number that is not negative"),
        ("crash-after=nan", "needs a number that is not negative"),
        ("crash-after=inf", "needs a number that is not negative"),
    ],
)
def test_a_bad_number_is_refused_whosever_fault_it_is(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse([text], "none")


@given(st.integers(1, 50), st.integers(1, 50))
def test_every_so_many_th_is_due(every: int, rounds: int) -> None:
    assert [due(every, number) for number in range(1, every + 1)].count(True) == 1
    assert due(every, every * rounds)
    assert not due(0, rounds)


def test_every_fault_is_shown_here() -> None:
    text = Path(__file__).read_text()
    assert [name for name in NAMES if f'"{name}=' not in text] == []
