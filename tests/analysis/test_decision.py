from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from specbench.analysis.decision import WorkloadDecision, decisions
from specbench.analysis.intervals import lower_bound, p_value, t_interval
from specbench.analysis.noise_floor import noise_floors
from specbench.analysis.workload_gains import WorkloadGains
from specbench.experiment.decision import Decision
from tests.analysis.deciding import gains

Logs = st.lists(st.floats(-1, 1), min_size=3, max_size=10).filter(lambda x: max(x) - min(x) > 1e-6)
GOOD = (1.08, 1.10, 1.09, 1.11, 1.10)
EVEN = (0.99, 1.01, 1.00, 1.005, 0.995)


def decide(
    found: Sequence[WorkloadGains],
    stage: Literal["screening", "confirmation"] = "confirmation",
    barred: Mapping[str, Sequence[str]] | None = None,
    declared: Decision | None = None,
) -> tuple[WorkloadDecision, ...]:
    declared = declared or Decision()
    floors = noise_floors(found, declared.aa_spread)
    return decisions(found, floors, declared, stage=stage, barred=barred or {})


def one(values: Sequence[float], **asked: object) -> WorkloadDecision:
    (found,) = decide([gains(values)], **asked)  # type: ignore[arg-type]
    return found


@given(Logs)
def test_a_p_value_agrees_with_scipys_t_test(logs: list[float]) -> None:
    assert p_value(logs) == pytest.approx(float(stats.ttest_1samp(logs, 0).pvalue), abs=1e-9)


@given(Logs)
def test_a_p_value_is_below_5_percent_exactly_where_the_interval_excludes_1(
    logs: list[float],
) -> None:
    interval, _ = t_interval(logs)
    p = p_value(logs)
    assert interval is not None
    assert p is not None
    assert (p < 0.05) == (interval.low > 1 or interval.high < 1) or p == pytest.approx(0.05)


def test_a_lower_bound_is_the_one_worked_out_by_hand() -> None:
    # Logs -0.01, 0, 0.01: mean 0, standard error 0.01 / sqrt 3, t(0.99, 2) = 6.964557.
    assert lower_bound([-0.01, 0.0, 0.01], 0.99) == pytest.approx(2.718281828 ** (-0.0402099))
    assert lower_bound([0.0, 0.1], 0.99) is None


def test_equal_ratios_have_a_p_value() -> None:
    assert p_value([0.1, 0.1, 0.1]) == 0
    assert p_value([0.0, 0.0, 0.0]) == 1


def test_a_gain_is_claimed_above_1_and_above_materiality_from_5_blocks() -> None:
    found = one(GOOD)
    assert (found.gain, found.reasons, found.regression) == ("claimed", (), "shown_absent")
    assert found.estimate == pytest.approx(float(stats.gmean(GOOD)))


def test_4_blocks_claim_nothing_however_clear_they_are() -> None:
    found = one(GOOD[:4])
    assert found.gain == "not_shown"
    assert found.reasons == ("4 blocks: a claim needs 5",)
    assert found.regression == "unresolved"


def test_a_small_gain_is_not_claimed_however_sure_it_is() -> None:
    found = one((1.019, 1.02, 1.021, 1.02, 1.02))
    assert found.gain == "not_shown"
    assert found.reasons == ("the estimate 1.02 is not above 1.03 (materiality)",)


def test_holm_takes_away_a_gain_that_one_comparison_would_claim() -> None:
    unsure = (1.01, 1.12, 1.03, 1.10, 1.07)
    assert one(unsure).gain == "claimed"
    many = [gains(unsure), *(gains(EVEN, stratum=f"s{n}") for n in range(5))]
    found = decide(many)[0]
    assert found.comparisons == 6
    assert found.p_holm == pytest.approx(6 * (found.p_value or 0))
    assert found.gain == "not_shown"
    assert "after Holm over 6 comparisons" in found.reasons[0]


def test_a_screening_names_candidates_and_claims_nothing() -> None:
    found = one(GOOD, stage="screening")
    assert found.gain == "candidate"
    assert found.reasons == ("a screening: to be confirmed on deployments of its own",)


@pytest.mark.parametrize("reason", ["acceptance is synthetic", "correctness is blocked: prompt 3"])
def test_what_bars_an_arm_withholds_its_gain_and_says_why(reason: str) -> None:
    found = one(GOOD, barred={"x": [reason]})
    assert (found.gain, found.reasons) == ("withheld", (reason,))
    assert found.regression == "unresolved"


def test_an_arm_that_is_barred_for_another_arms_sake_is_not() -> None:
    assert one(GOOD, barred={"y": ["acceptance is synthetic"]}).gain == "claimed"


def test_nothing_is_claimed_where_equal_arms_differ() -> None:
    repeat = gains((1.02, 1.021, 1.019, 1.02, 1.022), "baseline-repeat", "noise_floor", "chat")
    (found,) = decide([gains(GOOD), repeat])
    assert found.gain == "withheld"
    assert "A/A on chat: equal arms differ" in found.reasons[0]


def test_nothing_is_claimed_where_the_noise_floor_spreads_past_its_bound() -> None:
    repeat = gains((1.12, 0.9, 1.0, 1.01, 0.99), "baseline-repeat", "noise_floor")
    (found,) = decide([gains(GOOD), repeat])
    assert found.gain == "withheld"
    assert "two baselines of a block differ by 11.3%" in found.reasons[0]


def test_a_regression_is_present_by_its_estimate_from_the_first_block() -> None:
    assert one((0.94,)).regression == "present"
    assert one((0.96,)).regression == "unresolved"


def test_a_regression_is_shown_absent_by_the_99_percent_bound_alone() -> None:
    # t(0.99, 4) = 3.746947 and t(0.975, 4) = 2.776445: between the two only one bound passes.
    wide = (0.96, 1.04, 1.01, 1.03, 0.97)
    found = one(wide)
    assert found.interval is not None
    assert found.regression_low is not None
    assert found.regression_low < 0.95 < found.interval.low
    assert found.regression == "unresolved"
    assert one(EVEN).regression == "shown_absent"


def test_a_loss_is_told_as_no_gain() -> None:
    found = one(tuple(1 / value for value in GOOD))
    assert found.gain == "not_shown"
    assert "is no gain" in found.reasons[0]


def test_an_arm_near_the_best_is_marked_and_a_barred_one_is_not_the_best() -> None:
    found = decide(
        [gains((1.5,), "lossy"), gains((1.2,), "a"), gains((1.15,), "b"), gains((1.1,), "c")],
        barred={"lossy": ["lossy"]},
    )
    assert [item.within_best for item in found] == [True, True, True, False]


def test_a_block_that_is_lost_counts_as_one_comparison_all_the_same() -> None:
    found = decide([gains(GOOD), gains((), "y")])
    assert [item.comparisons for item in found] == [2, 2]
    lost = found[1]
    assert (lost.estimate, lost.p_holm, lost.regression) == (None, None, "unresolved")
    assert lost.reasons == ("0 blocks: a claim needs 5",)


def test_the_declared_limits_are_what_decides() -> None:
    declared = attrs.evolve(Decision(), materiality=0.2, regression=0.001)
    found = one(GOOD, declared=declared)
    assert found.gain == "not_shown"
    assert one((0.998,), declared=declared).regression == "present"
