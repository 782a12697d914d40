from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.analysis.detectable import (
    OTHER_BLOCKS,
    SIGNIFICANCE,
    detectable,
    reach,
    smallest_log_effect,
)

BLOCKS = st.integers(3, 12)
NOISE = st.floats(0.001, 0.2)
BASELINES = st.integers(1, 3)
COMPARISONS = st.integers(1, 40)
POWER = st.floats(0.5, 0.97)
DESIGN = {"noise": 0.02, "power": 0.8, "baselines": 2, "comparisons": 6}


def shown(
    log_effect: float, *, blocks: int, noise: float, baselines: int, critical: float
) -> float:
    """Give how often the t interval of simulated experiments lies above no effect."""
    draw = np.random.default_rng(20)
    runs = 40_000
    block = draw.normal(0, 0.3, (runs, blocks, 1))  # what a block does to all of its deployments
    plain = block + draw.normal(0, noise, (runs, blocks, baselines))
    arm = block[..., 0] + log_effect + draw.normal(0, noise, (runs, blocks))
    logs = arm - plain.mean(axis=2)
    half = critical * logs.std(axis=1, ddof=1) / math.sqrt(blocks)
    return float((logs.mean(axis=1) > half).mean())


@pytest.mark.parametrize(
    ("blocks", "baselines", "comparisons", "power", "critical"),
    [
        # Quantiles of Student's t from printed tables: 0.975 and 0.995 of 4, 0.975 of 2 and 11.
        (5, 2, 1, 0.8, 2.776),
        (5, 2, 5, 0.8, 4.604),
        (3, 1, 1, 0.9, 4.303),
        (12, 1, 1, 0.6, 2.201),
    ],
)
def test_simulated_experiments_show_the_smallest_effect_as_often_as_asked(
    blocks: int, baselines: int, comparisons: int, power: float, critical: float
) -> None:
    design = {"blocks": blocks, "noise": 0.02, "baselines": baselines}
    effect = smallest_log_effect(**design, power=power, significance=0.05 / comparisons)
    # Four standard errors of 40,000 experiments.
    found = shown(effect, critical=critical, **design)
    assert found == pytest.approx(power, abs=4 * math.sqrt(power * (1 - power) / 40_000))


def test_without_an_effect_one_side_is_shown_with_half_the_significance() -> None:
    assert shown(0, blocks=5, noise=0.02, baselines=2, critical=2.776) == pytest.approx(
        SIGNIFICANCE / 2, abs=0.003
    )
    least = smallest_log_effect(5, noise=0.02, baselines=2, significance=0.05, power=0.025)
    assert least == pytest.approx(0, abs=1e-9)


def test_the_textbook_sample_size_is_met() -> None:
    """Half a standard deviation, two-sided 5%, power 80%: 34 pairs, as power tables have it."""

    def effect(pairs: int) -> float:
        # One baseline doubles the variance, so the difference of a pair varies by 1.
        noise = 1 / math.sqrt(2)
        return smallest_log_effect(pairs, noise=noise, baselines=1, significance=0.05, power=0.8)

    assert effect(34) < 0.5 < effect(33)


def test_many_blocks_come_to_the_normal_approximation_and_few_are_far_above_it() -> None:
    def times(blocks: int) -> float:
        effect = smallest_log_effect(blocks, noise=0.02, baselines=1, significance=0.05, power=0.8)
        normal = (1.960 + 0.842) * 0.02 * math.sqrt(2) / math.sqrt(blocks)
        return effect / normal

    assert times(2000) == pytest.approx(1, abs=0.002)
    assert times(5) > 1.3
    assert times(3) > 2


@given(BLOCKS, NOISE, BASELINES, COMPARISONS, POWER)
@settings(max_examples=30, deadline=None)
def test_more_of_what_helps_lowers_the_smallest_effect_and_noise_scales_it(
    blocks: int, noise: float, baselines: int, comparisons: int, power: float
) -> None:
    def effect(**changes: float) -> float:
        asked = {
            "blocks": blocks,
            "noise": noise,
            "baselines": baselines,
            "significance": SIGNIFICANCE / comparisons,
            "power": power,
            **changes,
        }
        return smallest_log_effect(**asked)

    here = effect()
    assert here > 0
    assert effect(blocks=blocks + 1) < here
    assert effect(baselines=baselines + 1) < here
    assert effect(power=power + 0.01) > here
    assert effect(significance=SIGNIFICANCE / (comparisons + 1)) > here
    assert effect(noise=3 * noise) == pytest.approx(3 * here)


def test_the_first_step_of_holm_asks_more_unless_there_is_one_comparison() -> None:
    one = detectable(5, **{**DESIGN, "comparisons": 1})
    assert one.single == one.holm_first
    six = detectable(5, **DESIGN)
    assert six.single == one.single
    assert six.holm_first > six.single > 1


def test_under_three_blocks_there_is_none_and_three_and_four_are_wide() -> None:
    for blocks in (1, 2):
        few = detectable(blocks, **DESIGN)
        assert (few.single, few.holm_first) == (None, None)
        assert few.note == "no interval under 3 blocks"
    for blocks in (3, 4):
        assert detectable(blocks, **DESIGN).note == "wide; a claim needs 5 blocks"
    assert detectable(5, **DESIGN).note == ""


def test_without_an_arm_there_is_nothing_to_detect() -> None:
    alone = detectable(5, **{**DESIGN, "comparisons": 0})
    assert (alone.single, alone.holm_first, alone.note) == (None, None, "nothing to compare")


def test_a_design_stands_among_other_numbers_of_blocks_once() -> None:
    assert [one.blocks for one in reach(6, **DESIGN).effects] == sorted({6, *OTHER_BLOCKS})
    assert [one.blocks for one in reach(5, **DESIGN).effects] == list(OTHER_BLOCKS)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"blocks": 1}, "2 blocks"),
        ({"noise": 0.0}, "some noise"),
        ({"baselines": 0}, "a baseline"),
        ({"power": 0.02}, "between 0.025 and 1"),
        ({"power": 1.0}, "between 0.025 and 1"),
    ],
)
def test_what_has_no_answer_is_refused(changes: dict[str, float], said: str) -> None:
    asked = {"blocks": 5, "noise": 0.02, "baselines": 2, "significance": 0.05, "power": 0.8}
    with pytest.raises(ValueError, match=said):
        smallest_log_effect(**{**asked, **changes})
