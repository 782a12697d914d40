from __future__ import annotations

import numpy as np
import pytest

from specbench.analysis.distributions import Outputs, compare, least_p_value

OUTPUTS = 4


def sampled(
    chance: np.random.Generator, prompts: int = 8, *, stop: float = 0.2, first: float = 0.5
) -> Outputs:
    """A small language: a first token of two, then one of four until it stops."""
    return {
        f"p{place}": [
            (
                int(chance.random() < first),
                *map(int, chance.integers(2, 6, min(chance.geometric(stop), 12))),
            )
            for _ in range(OUTPUTS)
        ]
        for place in range(prompts)
    }


def rate(runs: int, prompts: int = 8, **arm: float) -> float:
    """The share of campaigns in which an arm is called different."""
    chance = np.random.default_rng(5)
    called = 0
    for seed in range(runs):
        found = compare(
            sampled(chance, prompts, **arm),
            sampled(chance, prompts),
            sampled(chance, prompts),
            seed=seed,
            permutations=199,
        )
        called += min(item.p_value for item in found) * len(found) <= 0.05
    return called / runs


def test_distances_are_those_worked_out_by_hand() -> None:
    baseline = {"p": [(1, 2, 3), (1, 2)]}
    arm = {"p": [(1, 2, 3, 4, 5), (9, 2)]}
    found = {item.respect: item for item in compare(arm, baseline, baseline, permutations=9)}
    # Sorted lengths 2 and 5 against 2 and 3.
    assert (found["length"].arm, found["length"].control) == (1.0, 0.0)
    # Half of the arm's first tokens is another one.
    assert found["first_token"].arm == pytest.approx(0.5)
    # Baseline: (1,2) 3/4, (2,3) 1/4. Arm: four pairs 1/8 each, (9,2) 1/2.
    assert found["ngram"].arm == pytest.approx((5 / 8 + 1 / 8 + 1 / 8 + 1 / 8 + 1 / 2) / 2)
    assert all(item.control == 0 for item in found.values())


def test_equal_sets_are_as_far_as_each_other() -> None:
    same = sampled(np.random.default_rng(1))
    assert {item.p_value for item in compare(same, same, same, permutations=19)} == {1.0}


def test_an_equal_arm_is_called_different_as_seldom_as_promised() -> None:
    # 300 campaigns at 5%: a true rate of 5% exceeds 27 calls (9%) once in 600.
    assert rate(300, prompts=4) <= 0.09


@pytest.mark.parametrize("arm", [{"stop": 0.6}, {"first": 0.05}])
def test_an_arm_that_samples_differently_is_found(arm: dict[str, float]) -> None:
    assert rate(40, prompts=32, **arm) >= 0.8


def test_p_values_of_equal_arms_are_even() -> None:
    chance = np.random.default_rng(9)
    values = [
        compare(sampled(chance), sampled(chance), sampled(chance), seed=seed, permutations=99)[2]
        for seed in range(200)
    ]
    below = np.mean([item.p_value <= 0.5 for item in values])
    assert 0.38 <= below <= 0.62


@pytest.mark.parametrize("wrong", [{}, {"q": [(1,)]}, {"p": [(1,), (2,)]}])
def test_sets_of_other_shape_are_refused(wrong: Outputs) -> None:
    with pytest.raises(ValueError, match="prompt"):
        compare(wrong, {"p": [(1,)]}, {"p": [(1,)]})


def test_empty_outputs_are_outputs_too() -> None:
    found = compare({"p": [()]}, {"p": [(1, 2)]}, {"p": [(1, 2)]}, permutations=9)
    assert [item.arm for item in found] == [2.0, 1.0, 1.0]


def test_few_outputs_have_a_least_p_value() -> None:
    assert least_p_value([1]) == 0.5
    assert least_p_value([2, 1]) == pytest.approx(1 / 12)
    assert least_p_value([1] * 2000) == 1 / 1000


def test_a_p_value_of_few_outputs_is_that_of_all_their_divisions() -> None:
    # Lengths 5 and 6 of the arm, 1 and 2 of the control, 1 and 2 of the baseline: of the six
    # divisions only the real one puts the arm as far away.
    arm, control = {"p": [(7,) * 5, (7,) * 6]}, {"p": [(7,), (7, 7)]}
    found = compare(arm, control, control, permutations=5_999)[0]
    assert (found.arm, found.control) == (4.0, 0.0)
    assert found.p_value == pytest.approx(1 / 6, abs=0.02)


def test_many_outputs_are_divided_at_random() -> None:
    # 12,870 ways to divide 8 and 8 outputs: more than are drawn.
    arm, control = {"p": [(7,) * (9 + n) for n in range(8)]}, {"p": [(7,) * n for n in range(1, 9)]}
    found = compare(arm, control, control, permutations=199)[0]
    assert (found.arm, found.control) == (8.0, 0.0)
    assert found.p_value == pytest.approx(1 / 200, abs=0.006)
    same = compare(control, control, control, permutations=199)[0]
    assert same.p_value > 0.3
