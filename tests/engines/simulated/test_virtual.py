from __future__ import annotations

import pytest

from specbench.engines.simulated.scheduler import Request
from specbench.engines.simulated.virtual import closed_loop, open_loop
from specbench.judge.cells import achieved_concurrency, tpot_s, ttft_s
from tests.engines.simulated.test_scheduler import COST, PLAIN, Drafting, request, rules


def requests(count: int, **more: int) -> list[Request]:
    return [request(f"{place}", **more) for place in range(count)]


def test_one_stream_takes_a_prefill_step_and_then_a_step_a_token() -> None:
    window = closed_loop(requests(2), concurrency=1, rules=rules(), cost=COST)
    for row in window.rows:
        assert ttft_s(row) == pytest.approx(0.010)
        assert tpot_s(row) == pytest.approx(0.011)
    assert window.duration_s == pytest.approx(2 * (0.010 + 9 * 0.011))


def test_a_closed_loop_keeps_its_concurrency() -> None:
    window = closed_loop(requests(12), concurrency=3, rules=rules(), cost=COST)
    assert achieved_concurrency(window.rows, 3) == pytest.approx(3)


def test_an_open_loop_sends_at_its_instants_whatever_is_in_flight() -> None:
    arrivals_s = [0.0, 0.001, 5.0]
    window = open_loop(requests(3), arrivals_s=arrivals_s, rules=rules(), cost=COST)
    assert [row.sent_ns for row in window.rows] == [0, 1_000_000, 5_000_000_000]
    # The second waits for the step that runs, the third finds an idle server.
    assert ttft_s(window.rows[1]) == pytest.approx(0.009 + 0.011)
    assert ttft_s(window.rows[2]) == pytest.approx(0.010)


def test_instants_must_rise() -> None:
    with pytest.raises(ValueError, match="must rise"):
        open_loop(requests(2), arrivals_s=[1.0, 0.5], rules=rules(), cost=COST)


def test_acceptance_is_counted_as_the_counters_would() -> None:
    window = closed_loop(
        requests(4, accepted=2),
        concurrency=2,
        rules=rules(Drafting(method="eagle", depth=3)),
        cost=COST,
    )
    found = window.acceptance
    assert found is not None
    # 10 tokens: one of the prefill, then 3 + 3 + 3 in three drafts.
    assert (found.drafts, found.drafted, found.accepted) == (12, 36, 24)
    assert found.per_position == (12, 12, 0)
    assert closed_loop(requests(1), concurrency=1, rules=rules(PLAIN), cost=COST).acceptance is None


def test_a_state_passed_on_keeps_the_prefix_cache_warm() -> None:
    from specbench.engines.simulated.prefix_cache import PrefixCache
    from specbench.engines.simulated.scheduler import State

    cold = State(cache=PrefixCache(capacity=100))
    one = [request("a", prompt=64)]
    first = closed_loop(one, concurrency=1, rules=rules(), cost=COST, state=cold)
    again = closed_loop(one, concurrency=1, rules=rules(), cost=COST, state=first.state)
    assert (first.cached_tokens, again.cached_tokens) == (0, 48)
