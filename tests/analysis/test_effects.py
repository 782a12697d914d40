from __future__ import annotations

import math

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from specbench.analysis.effects import Effect, Point, Role, effects, geometric_mean, paired
from specbench.analysis.intervals import t_interval
from specbench.analysis.workload_gains import gain, workload_gains


def point(block: int, arm: str, role: Role, value: float | None, excluded: str = "") -> Point:
    return Point(
        block=block,
        arm=arm,
        role=role,
        stratum="code",
        sampling="greedy",
        concurrency=1,
        metric="output_throughput",
        value=value,
        excluded=excluded,
    )


def only(found: tuple[Effect, ...], arm: str) -> Effect:
    return next(effect for effect in found if effect.arm == arm)


def test_an_effect_is_the_geometric_mean_of_ratios_inside_blocks() -> None:
    found = effects(
        [
            point(1, "baseline", "baseline", 100),
            point(1, "x", "arm", 200),
            point(2, "baseline", "baseline", 50),
            point(2, "x", "arm", 25),
        ]
    )
    effect = only(found, "x")
    assert [repeat.ratio for repeat in effect.repeats] == pytest.approx([2.0, 0.5])
    assert effect.estimate == pytest.approx(1.0)
    assert effect.median == pytest.approx(1.25)


def test_the_baseline_of_a_block_is_the_geometric_mean_of_its_plain_baselines() -> None:
    found = effects(
        [
            point(1, "baseline", "baseline", 100),
            point(1, "baseline-repeat", "noise_floor", 121),
            point(1, "x", "arm", 220),
        ]
    )
    assert only(found, "x").repeats[0].baseline == pytest.approx(110)
    assert only(found, "x").estimate == pytest.approx(2.0)
    # A/A compares with the other deployment alone, or half of it would be itself.
    assert only(found, "baseline-repeat").estimate == pytest.approx(1.21)


def test_a_block_without_its_baseline_gives_no_ratio_and_says_so() -> None:
    found = effects(
        [
            point(1, "baseline", "baseline", None, "success_rate"),
            point(1, "x", "arm", 200),
            point(2, "baseline", "baseline", 50),
            point(2, "x", "arm", None, "foreign_traffic"),
        ]
    )
    effect = only(found, "x")
    assert (effect.repeats, effect.estimate, effect.interval) == ((), None, None)
    assert effect.missing == ("block 1: no usable baseline", "block 2: foreign_traffic")


@pytest.mark.parametrize(
    ("blocks", "has_interval", "note"),
    [
        (1, False, "no interval"),
        (2, False, "no interval"),
        (3, True, "wide"),
        (4, True, "wide"),
        (5, True, ""),
    ],
)
def test_intervals_start_at_3_blocks_and_are_wide_below_5(
    blocks: int, has_interval: bool, note: str
) -> None:
    interval, said = t_interval([0.1, 0.2, 0.3, 0.15, 0.25][:blocks])
    assert (interval is not None) is has_interval
    assert note in said


def test_an_interval_is_the_t_interval_worked_out_by_hand() -> None:
    # Logs 0.1, 0.2, 0.3: mean 0.2, standard error 0.1 / sqrt 3, t(0.975, 2) = 4.302653.
    interval, _ = t_interval([0.1, 0.2, 0.3])
    assert interval is not None
    half = 4.302653 * 0.1 / math.sqrt(3)
    assert interval.low == pytest.approx(math.exp(0.2 - half), rel=1e-6)
    assert interval.high == pytest.approx(math.exp(0.2 + half), rel=1e-6)


@given(st.lists(st.floats(-2, 2), min_size=3, max_size=12).filter(lambda x: max(x) - min(x) > 1e-6))
def test_an_interval_agrees_with_scipys_own(logs: list[float]) -> None:
    interval, _ = t_interval(logs)
    assert interval is not None
    low, high = stats.t.interval(
        0.95, len(logs) - 1, loc=sum(logs) / len(logs), scale=stats.sem(logs)
    )
    assert (math.log(interval.low), math.log(interval.high)) == pytest.approx((low, high), abs=1e-9)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=20))
def test_a_geometric_mean_agrees_with_scipys(values: list[float]) -> None:
    assert geometric_mean(values) == pytest.approx(float(stats.gmean(values)))


def test_an_effect_tells_its_spread_its_deployments_and_a_weak_percentile() -> None:
    plain = [point(block, "baseline", "baseline", 100) for block in (1, 2)]
    again = point(1, "baseline-repeat", "noise_floor", 100)
    weak = attrs.evolve(point(1, "x", "arm", 90), weak=True)
    effect = only(effects([*plain, again, weak, point(2, "x", "arm", 110)]), "x")
    # (1.1 - 0.9) / 1.0; two of the arm, three plain ones.
    assert effect.spread == pytest.approx(0.2)
    assert effect.deployments == 5
    assert effect.weak
    assert effect.bootstrap is None


def test_a_bootstrap_stands_beside_the_interval_with_its_measured_coverage() -> None:
    values = [100, 102, 98, 101, 103]
    plain = [point(block, "baseline", "baseline", 100) for block in range(5)]
    effect = only(effects([*plain, *(point(b, "x", "arm", v) for b, v in enumerate(values))]), "x")
    assert effect.bootstrap is not None
    assert effect.interval is not None
    assert effect.bootstrap.coverage < 0.95
    assert effect.interval.low < effect.bootstrap.interval.low


def test_a_workloads_gain_is_the_geometric_mean_over_loads_and_needs_all_of_them() -> None:
    def at(load: int, block: int, value: float | None) -> list[Point]:
        plain = attrs.evolve(point(block, "baseline", "baseline", 1), concurrency=load)
        arm = point(block, "x", "arm", value, "" if value else "success_rate")
        return [plain, attrs.evolve(arm, concurrency=load)]

    pairs = paired([*at(1, 1, 1.2), *at(8, 1, 0.9), *at(1, 2, 1.1), *at(8, 2, None)])
    (found,) = workload_gains(pairs, "output_throughput", (1, 8))
    assert found.gains == pytest.approx({1: math.sqrt(1.2 * 0.9)})
    assert found.missing == ("load 8: block 2: success_rate",)
    (lacking,) = workload_gains(pairs, "output_throughput", (1, 32))
    assert lacking.gains == {}
    assert lacking.missing == ("load 32: not measured",)


def test_times_gain_when_they_fall() -> None:
    assert gain("ttft_p95_s", 0.5) == 2
    assert gain("output_throughput", 0.5) == 0.5
