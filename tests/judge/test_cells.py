from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.experiment.model import Gates
from specbench.judge import cells
from tests.conftest import row

MS = 1_000_000


def test_times_of_a_row_follow_their_definitions() -> None:
    one = row(sent_ns=50 * MS)
    assert cells.ttft_s(one) == pytest.approx(0.05)
    assert cells.e2e_s(one) == pytest.approx(0.55)
    assert cells.tpot_s(one) == pytest.approx(0.5 / 10)


def test_a_single_token_has_no_tpot() -> None:
    assert cells.tpot_s(row(completion_tokens=1)) is None


def test_payloads_of_one_read_tell_no_time_between_them() -> None:
    merged = row(last_payload_ns=100 * MS, event_ns=(100 * MS, 100 * MS), merged_events=1)
    assert cells.ttft_s(merged) == cells.e2e_s(merged) == pytest.approx(0.1)
    assert cells.tpot_s(merged) is None


def test_a_failed_request_has_no_latency() -> None:
    failed = row(status="stream_error")
    assert (cells.ttft_s(failed), cells.tpot_s(failed), cells.e2e_s(failed)) == (None, None, None)


def test_throughput_spans_first_send_to_last_completion() -> None:
    rows = [row(0), row(1, sent_ns=400 * MS, last_payload_ns=1_100 * MS, ended_ns=1_100 * MS)]
    summary = cells.summarise(rows, 1)
    assert summary.duration_s == pytest.approx(1.1)
    assert summary.output_tokens == 22
    assert summary.output_throughput == pytest.approx(20.0)


def test_one_success_without_usage_withholds_the_throughput() -> None:
    summary = cells.summarise([row(0), row(1, completion_tokens=None)], 1)
    assert summary.output_throughput is None
    assert summary.successes == 2


def test_failures_enter_the_gate_and_no_number() -> None:
    rows = [row(index) for index in range(9)] + [
        row(
            9,
            status="http_error",
            error="HTTP 500: x",
            last_payload_ns=None,
            first_payload_ns=None,
            completion_tokens=None,
        )
    ]
    summary = cells.summarise(rows, 1)
    assert (summary.requests, summary.successes, summary.output_tokens) == (10, 9, 99)
    success = cells.gates(rows, 1, Gates())[0]
    assert (success.outcome, success.observed) == ("fail", "0.9000")
    assert "HTTP 500" in success.advice
    assert cells.gates(rows, 1, Gates(success_rate=0.9))[0].outcome == "pass"


def test_achieved_concurrency_is_a_time_mean_from_the_cth_to_the_last_send() -> None:
    # Two streams; the span is 10 to 110 ms. In it the requests are in flight for 100 (the first),
    # 40 (the second) and 50 ms (the third, from 60 on): 190 / 100.
    rows = [
        row(0, sent_ns=0, ended_ns=110 * MS),
        row(1, sent_ns=10 * MS, ended_ns=50 * MS),
        row(2, sent_ns=60 * MS, ended_ns=200 * MS),
        row(3, sent_ns=110 * MS, ended_ns=200 * MS),
    ]
    assert cells.achieved_concurrency(rows, 2) == pytest.approx(1.9)


def test_achieved_concurrency_without_a_span_is_undecided() -> None:
    rows = [row(0), row(1)]
    assert cells.achieved_concurrency(rows, 2) is None
    assert cells.gates(rows, 2, Gates())[1].outcome == "undecided"


def test_a_client_that_idles_fails_the_concurrency_gate() -> None:
    rows = [row(i, sent_ns=i * 1000 * MS, ended_ns=i * 1000 * MS + 500 * MS) for i in range(5)]
    verdict = cells.gates(rows, 1, Gates())[1]
    assert (verdict.outcome, verdict.observed) == ("fail", "0.50 of 1")


def test_steady_throughput_counts_tokens_between_the_cth_and_the_last_send() -> None:
    rows = [
        row(0, event_ns=(10 * MS, 90 * MS), event_tokens=(1, 4)),
        row(1, sent_ns=100 * MS, event_ns=(150 * MS,), event_tokens=(3,)),
    ]
    assert cells.summarise(rows, 1).steady_throughput == pytest.approx(5 / 0.1)


def test_steady_throughput_is_unknown_without_token_ids() -> None:
    rows = [row(0, event_tokens=(None, None)), row(1, sent_ns=100 * MS)]
    assert cells.summarise(rows, 1).steady_throughput is None


@pytest.mark.parametrize(
    ("count", "withheld", "weak"),
    [(59, True, True), (60, False, True), (199, False, True), (200, False, False)],
)
def test_p95_is_withheld_below_60_and_weak_below_200(
    count: int, withheld: bool, weak: bool
) -> None:
    summary = cells.summarise([row(index) for index in range(count)], 1)
    assert (summary.ttft_p95_s is None) is withheld
    assert summary.p95_weak is weak
    assert summary.ttft_p50_s is not None


@pytest.mark.parametrize(
    ("count", "withheld", "weak"),
    [(299, True, True), (300, False, True), (999, False, True), (1000, False, False)],
)
def test_p99_is_withheld_below_300_and_weak_below_1000(
    count: int, withheld: bool, weak: bool
) -> None:
    summary = cells.summarise([row(index) for index in range(count)], 1)
    assert (summary.e2e_p99_s is None) is withheld
    assert summary.p99_weak is weak


@given(st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=200))
def test_a_median_is_numpys_linear_one(values: list[float]) -> None:
    assert cells.quantile(values, 0.5) == pytest.approx(float(np.percentile(values, 50)))


def test_load_points_with_other_prompts_are_flagged() -> None:
    verdict = cells.same_prompts({1: 4, 8: 40}, 20)
    assert verdict is not None
    assert verdict.outcome == "undecided"
    assert "4 at c=1, 20 at c=8" in verdict.observed
    assert cells.same_prompts({1: 20, 8: 40}, 20) is None


def test_later_turns_are_no_part_of_the_rate_of_an_open_load() -> None:
    second = 1_000_000_000
    rows = [row(n, scheduled_ns=n * second, sent_ns=n * second) for n in range(5)]
    # A conversation that goes on long after the last arrival.
    rows.append(row(5, turn=1, scheduled_ns=None, sent_ns=60 * second))
    _, rate = cells.gates(rows, None, Gates())
    assert (rate.gate, rate.outcome) == ("achieved_rate", "pass")
    assert rate.observed.startswith("1.0000")
