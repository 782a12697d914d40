"""Published inputs of the Apertus 1.5 speculative decoding study in, its published values out."""

from __future__ import annotations

import math

import pytest

from specbench.analysis.effects import Effect, Metric, Point, effects, paired
from specbench.analysis.intervals import spread, t_interval
from specbench.analysis.noise_floor import noise_floors
from specbench.analysis.workload_gains import gain, workload_gains
from tests.analysis.deciding import gains


def effect(arm: float, *plain: float, metric: Metric = "output_throughput") -> Effect:
    names = [("baseline", "baseline"), ("baseline-repeat", "noise_floor")][: len(plain)]
    values = [*zip(names, plain, strict=True), (("x", "arm"), arm)]
    found = effects(
        Point(
            block=1,
            arm=name,
            role=role,  # type: ignore[arg-type]
            stratum="code",
            sampling="greedy",
            concurrency=1,
            metric=metric,
            value=value,
        )
        for (name, role), value in values
    )
    return next(item for item in found if item.arm == "x")


def test_the_screenings_speedup_against_both_baselines_and_against_the_first() -> None:
    # The study takes the arithmetic mean of its baselines, which lie 0.1% apart: 2e-7 away.
    throughput = 9_216 / 138.6759898
    assert throughput == pytest.approx(66.457070)
    both = effect(throughput, 70.4697458, 70.5506125)
    assert both.estimate == pytest.approx(0.9425174, abs=1e-6)
    assert both.deployments == 3
    assert effect(throughput, 70.4697458).estimate == pytest.approx(0.943, abs=5e-4)


@pytest.mark.parametrize(
    ("repeats", "published", "passes"),
    [
        ((29.4202563, 26.3370860), 0.1106, False),
        ((190.5939564, 173.1911251), 0.0957, True),
        ((79.1668860, 84.5454134), 0.0657, True),
        ((493.6571059, 491.6306847), 0.0041, True),
    ],
)
def test_spreads_of_repeats_and_which_pass_ten_percent(
    repeats: tuple[float, float], published: float, passes: bool
) -> None:
    assert spread(repeats) == pytest.approx(published, abs=5e-5)
    aa = gains((repeats[1] / repeats[0],), "baseline-repeat", "noise_floor")
    (floor,) = noise_floors([aa], 0.10)
    assert floor.spread == pytest.approx(spread(repeats))
    assert (floor.outcome != "fail") is passes


def test_the_confirmations_ratios_of_one_block() -> None:
    tpot = effect(4.7215554, 5.7716708, metric="tpot_p50_s")
    assert tpot.estimate is not None
    assert gain("tpot_p50_s", tpot.estimate) == pytest.approx(1.2224, abs=5e-5)
    assert effect(199.1579105, 168.6964005).estimate == pytest.approx(1.1806, abs=5e-5)


@pytest.mark.parametrize(
    ("blocks", "mean", "low", "high"),
    [
        ((1.4024169, 1.3994318, 1.3972691), 1.3997, 1.3933, 1.4061),
        ((1.3917, 1.3878, 1.3861), 1.3885, 1.3815, 1.3956),
    ],
)
def test_the_confirmations_means_and_their_t_intervals(
    blocks: tuple[float, ...], mean: float, low: float, high: float
) -> None:
    logs = [math.log(ratio) for ratio in blocks]
    interval, note = t_interval(logs)
    assert interval is not None
    assert math.exp(sum(logs) / 3) == pytest.approx(mean, abs=5e-5)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-4)
    assert note == "3 blocks: wide; a claim needs 5"


@pytest.mark.parametrize(
    ("by_load", "published"), [((1.437, 1.364), 1.400), ((1.421, 1.356), 1.389)]
)
def test_the_confirmations_gain_over_its_loads(
    by_load: tuple[float, float], published: float
) -> None:
    points = [
        Point(
            block=1,
            arm=arm,
            role=role,  # type: ignore[arg-type]
            stratum="all",
            sampling="greedy",
            concurrency=load,
            metric="tpot_p50_s",
            value=value,
        )
        for load, speedup in zip((1, 8), by_load, strict=True)
        for arm, role, value in (("baseline", "baseline", 1.0), ("k", "arm", 1 / speedup))
    ]
    (found,) = workload_gains(paired(points), "tpot_p50_s", (1, 8))
    assert found.gains[1] == pytest.approx(published, abs=1e-3)


@pytest.mark.parametrize(
    ("arm", "plain", "published"),
    [
        (1043.343, 598.192, 1.74),
        (1403.730, 598.192, 2.35),
        (7295.153, 1847.466, 3.95),
        (244.594, 160.948, 1.52),
        (1647.828, 1847.466, 0.89),
    ],
)
def test_the_sweeps_ratios(arm: float, plain: float, published: float) -> None:
    assert effect(arm, plain).estimate == pytest.approx(published, abs=5e-3)
