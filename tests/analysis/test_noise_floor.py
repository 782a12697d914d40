from __future__ import annotations

import pytest

from specbench.analysis.noise_floor import NoiseFloor, noise_floors
from tests.analysis.deciding import gains

SOUND = (1.01, 0.99, 1.0, 1.005, 0.995)
BIASED = (1.02, 1.021, 1.019, 1.02, 1.022)
UNLUCKY = (1.001, 1.03, 1.01, 1.028, 1.013)


def judged(*floors: tuple[float, ...], bound: float = 0.1) -> list[NoiseFloor]:
    found = [
        gains(values, "baseline-repeat", "noise_floor", f"s{place}")
        for place, values in enumerate(floors)
    ]
    return list(noise_floors([gains((1.5,)), *found], bound))


def test_a_sound_noise_floor_passes() -> None:
    (floor,) = judged(SOUND)
    assert (floor.outcome, floor.reason) == ("pass", "")
    # |0.99 - 1| / 0.995 is the largest of the five.
    assert floor.spread == pytest.approx(0.01 / 0.995)


def test_an_interval_that_excludes_1_fails() -> None:
    (floor,) = judged(BIASED)
    assert floor.interval is not None
    assert floor.interval.low > 1
    assert floor.outcome == "fail"


def test_holm_over_workloads_keeps_a_sound_run_from_being_voided_by_chance() -> None:
    assert judged(UNLUCKY)[0].outcome == "fail"
    assert {floor.outcome for floor in judged(UNLUCKY, *(SOUND,) * 9)} == {"pass"}


def test_one_block_too_far_apart_fails_before_there_is_an_interval() -> None:
    (floor,) = judged((0.8954,))
    assert (floor.outcome, floor.interval) == ("fail", None)
    assert floor.reason == "two baselines of a block differ by 11.0%, more than 10.0%"


def test_too_few_blocks_are_undecided() -> None:
    (floor,) = judged((1.0, 1.01))
    assert (floor.outcome, floor.reason) == ("undecided", "2 blocks: no interval under 3")


def test_a_design_without_a_noise_floor_has_none() -> None:
    assert noise_floors([gains((1.1,))], 0.1) == ()
