from __future__ import annotations

import math
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from specbench.analysis.intervals import Interval
from specbench.analysis.step_cost import (
    BreakEven,
    StepCost,
    Window,
    break_even_length,
    break_evens,
    decode_step_s,
    gain,
    realised_batch,
    sequence_steps,
    step_costs,
    step_s,
    tokens_per_step,
)


@pytest.mark.parametrize(
    ("tpot_ms", "tokens", "accepted", "published_ms"),
    [
        (15.0168695, 9216, 1584, 18.134),
        (33.3859197, 5592, 3660, 96.633),
        (17.2134932, 3240, 452, 20.004),
        (41.8618562, 8192, 4878, 103.480),
    ],
)
def test_published_step_costs_come_out(
    tpot_ms: float, tokens: int, accepted: int, published_ms: float
) -> None:
    per_step = tokens_per_step(tokens, tokens - accepted)
    assert step_s(tpot_ms, per_step) == pytest.approx(published_ms, abs=0.001)


def test_the_published_break_even_of_a_70b_n_gram_comes_out() -> None:
    plain_ms, tokens, steps, step_ms = 15.8211139, 8192, 5886, 17.9396115
    per_step, cost = tokens_per_step(tokens, steps), step_ms / plain_ms
    assert per_step == pytest.approx(1.3917771, abs=1e-7)
    # The longest step that breaks even: there the cost is the tokens a step.
    assert per_step * plain_ms == pytest.approx(22.0194640, abs=1e-6)
    assert gain(per_step, cost) == pytest.approx(1.2274214, abs=1e-7)
    assert gain(3 + 1, cost) == pytest.approx(3.5276380, abs=1e-7)


def test_the_published_acceptance_length_of_that_n_gram_is_no_bound_of_its_gain() -> None:
    # Acceptance length 1.631, tokens a step 1.392: 62.1% of the steps had a draft.
    share = (1.3917771 - 1) / (1.631 - 1)
    cost = 17.9396115 / 15.8211139
    # It broke even by 1.134 tokens a step, which is a length of 1.216 on the steps that drafted.
    assert break_even_length(cost, share) == pytest.approx(1.2157, abs=1e-3)
    assert gain(1.631, cost) > 1.43
    assert gain(1.3917771, cost) == pytest.approx(1.2274, abs=1e-4)


PLAIN = Window(
    block=1,
    arm="baseline",
    role="baseline",
    stratum="code",
    sampling="greedy",
    concurrency=8,
    arrival_rate=None,
    excluded="",
    requests=10,
    successes=10,
    tokens=1010,
    decode_s=10.0,
    engine_steps=202,
    drafts=None,
    accepted=None,
    tokens_per_step=None,
    acceptance_length=None,
    longest_draft=None,
)
"""1,000 decoded tokens in 10 s: 10 ms a step. 1,010 steps of requests in 202: a batch of 5."""

ARM = attrs.evolve(
    PLAIN,
    arm="draft",
    role="arm",
    decode_s=7.5,
    engine_steps=102,
    drafts=500,
    accepted=505,
    tokens_per_step=2.0,
    acceptance_length=2.01,
    longest_draft=3,
)
"""510 steps: 10 prefills and 500 drafts, of a batch of 5. 7.5 s / 500 steps: 15 ms a step."""


def cost(arm: Window, *plain: Window) -> StepCost:
    (found,) = step_costs([arm, *(plain or (PLAIN,))])
    return found


def test_the_decomposition_by_hand() -> None:
    found = cost(ARM)
    assert (found.baseline_batch, found.arm_batch) == (5, 5)
    assert (found.baseline_step_s, found.arm_step_s) == pytest.approx((0.01, 0.015))
    assert found.cost == pytest.approx(1.5)
    # 1,000 tokens in 500 steps, though the counters accepted 505: 5 were cut.
    assert found.delivered_per_step == 2.0
    assert found.delivered_length == 2.0
    assert found.drafted_share == 1.0
    assert found.break_even_length == pytest.approx(1.5)
    assert found.bound == 2.0
    assert found.ceiling == pytest.approx(4 / 1.5)
    # TPOT fell from 10 to 7.5 ms, which is tokens a step / cost.
    assert found.delivered_per_step / found.cost == pytest.approx(10 / 7.5)


def test_steps_without_a_draft_raise_the_length_that_breaks_even() -> None:
    # 610 steps: 10 prefills, 200 drafts and 400 without. 400 accepted tokens: length 3.
    arm = attrs.evolve(
        ARM,
        drafts=200,
        accepted=400,
        engine_steps=122,
        decode_s=9.0,
        tokens_per_step=1010 / 610,
        acceptance_length=3.0,
    )
    found = cost(arm)
    assert found.cost == pytest.approx(1.5)
    assert found.drafted_share == pytest.approx(1 / 3)
    # A third of the steps must give the half token that every step costs more.
    assert found.break_even_length == pytest.approx(2.5)
    assert found.delivered_length == pytest.approx(3.0)
    # The length bounds nothing that a step without a draft takes part in.
    assert found.bound == pytest.approx(1010 / 610)
    assert found.delivered_per_step == pytest.approx(1000 / 600)


def test_a_single_stream_has_one_request_in_every_step() -> None:
    # 20 short outputs: of 300 tokens 180 were accepted, but many of them cut. 170 steps are counted.
    arm = attrs.evolve(
        ARM, concurrency=1, tokens=300, drafts=100, accepted=180, engine_steps=170, decode_s=2.4
    )
    assert sequence_steps(arm) == 170
    assert realised_batch(arm) == 1.0
    assert decode_step_s(arm) == pytest.approx(2.4 / 160)
    plain = attrs.evolve(PLAIN, concurrency=1, tokens=300, engine_steps=300, decode_s=2.9)
    assert cost(arm, plain).drafted_share == pytest.approx(100 / 160)


def test_a_baseline_of_another_load_serves_where_its_batch_is_the_same() -> None:
    # At concurrency 8 the baseline ran 5 sequences a step; the arm's 5 are compared with these, not
    # with the 8.08 of its own load.
    plain = attrs.evolve(PLAIN, concurrency=16)
    other = attrs.evolve(PLAIN, engine_steps=125)
    found = cost(ARM, plain, other)
    assert found.baseline_batch == 5
    assert found.cost == pytest.approx(1.5)


def test_two_plain_baselines_weigh_the_same() -> None:
    repeat = attrs.evolve(PLAIN, arm="baseline-repeat", role="noise_floor", decode_s=14.4)
    assert cost(ARM, PLAIN, repeat).baseline_step_s == pytest.approx(0.012)


@pytest.mark.parametrize(
    ("changes", "of_plain", "said"),
    [
        ({"excluded": "success_rate"}, {}, "success_rate"),
        ({"drafts": None}, {}, "the server counts no drafts"),
        ({"drafts": 0, "accepted": 0}, {}, "nothing was drafted"),
        ({"successes": 9}, {}, "a request failed, whose share of the steps is unknown"),
        ({"tokens": None}, {}, "no decode step with exact token counts"),
        ({"decode_s": None}, {}, "no decode step with exact token counts"),
        ({"engine_steps": None}, {}, "the server counts no steps, so that its batch is unknown"),
        ({}, {"excluded": "settled"}, "no usable baseline"),
        ({}, {"decode_s": 0.0}, "no usable baseline"),
        ({}, {"block": 2}, "no usable baseline"),
        ({}, {"sampling": "warm"}, "no usable baseline"),
        (
            {"engine_steps": 68},
            {},
            "a step advanced 7.5 sequences, the baseline's nearest 5: not within 5%",
        ),
    ],
)
def test_a_cost_is_withheld_with_its_reason(
    changes: dict[str, Any], of_plain: dict[str, Any], said: str
) -> None:
    found = cost(attrs.evolve(ARM, **changes), attrs.evolve(PLAIN, **of_plain))
    assert found.withheld == said
    assert (found.cost, found.break_even_length, found.ceiling) == (None, None, None)


@given(
    decode_steps=st.integers(20, 400),
    drafted=st.floats(0.05, 1),
    accepted=st.floats(0, 1),
    slower=st.floats(0.5, 4),
)
def test_the_length_beats_the_break_even_just_where_tpot_beats_the_baseline(
    decode_steps: int, drafted: float, accepted: float, slower: float
) -> None:
    drafts = max(1, int(drafted * decode_steps))
    delivered = int(accepted * 3 * drafts)
    arm = attrs.evolve(
        ARM,
        tokens=10 + decode_steps + delivered,
        drafts=drafts,
        accepted=delivered,
        engine_steps=(10 + decode_steps) / 5,  # type: ignore[arg-type]  # a batch of 5 exactly
        decode_s=0.01 * slower * decode_steps,
    )
    found = cost(arm)
    assert found.cost is not None
    assert found.delivered_per_step is not None
    assert found.delivered_length is not None
    assert found.break_even_length is not None
    tpot = 0.01 * slower * decode_steps / (decode_steps + delivered)
    assert 0.01 / tpot == pytest.approx(found.delivered_per_step / found.cost)
    if not math.isclose(tpot, 0.01, rel_tol=1e-9):
        assert (found.delivered_length > found.break_even_length) == (tpot < 0.01)


def over(*decode_s: float) -> BreakEven:
    windows = [
        attrs.evolve(window, block=block)
        for block, spent in enumerate(decode_s, start=1)
        for window in (PLAIN, attrs.evolve(ARM, decode_s=spent))
    ]
    (found,) = break_evens(step_costs(windows))
    return found


def test_the_uncertainty_is_students_t_over_blocks() -> None:
    spent = (7.2, 7.5, 7.9, 7.6, 7.4)
    found, costs = over(*spent), [value / 5 for value in spent]
    of_logs = ttest_1samp([math.log(value) for value in costs], 0).confidence_interval()
    assert found.cost_interval is not None
    assert math.log(found.cost_interval.low) == pytest.approx(of_logs.low)
    assert math.log(found.cost_interval.high) == pytest.approx(of_logs.high)
    # Every step drafts here, so that the length that breaks even is the cost itself.
    of_lengths = ttest_1samp(costs, 0).confidence_interval()
    assert found.length_interval is not None
    assert found.length_interval.low == pytest.approx(of_lengths.low)
    assert found.length_interval.high == pytest.approx(of_lengths.high)
    assert found.break_even_length == pytest.approx(sum(costs) / 5)
    assert (found.blocks, found.interval_note, found.missing) == (5, "", ())


def test_two_blocks_have_no_interval_and_a_lost_block_is_named() -> None:
    found = over(7.5, 7.6, 0.0)
    assert (found.blocks, found.cost_interval, found.length_interval) == (2, None, None)
    assert found.interval_note == "2 blocks: no interval under 3"
    assert found.missing == ("block 3: no decode step with exact token counts",)


def test_equal_blocks_have_an_interval_without_width() -> None:
    found = over(7.5, 7.5, 7.5)
    assert isinstance(found.length_interval, Interval)
    assert found.length_interval.low == pytest.approx(found.length_interval.high)
