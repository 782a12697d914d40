from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from specbench.analysis.correlation import Accepted, correlations, pearson, spearman


def accepted(arm: str, rate: float | None, ratio: float, block: int = 1, **where: str) -> Accepted:
    return Accepted(
        block=block,
        arm=arm,
        stratum=where.get("stratum", "code"),
        sampling="greedy",
        concurrency=8,
        arrival_rate=None,
        metric=where.get("metric", "output_throughput"),
        ratio=ratio,
        acceptance_rate=rate,
        acceptance_length=None if rate is None else 1 + 3 * rate,
    )


few = st.lists(
    st.tuples(st.integers(-20, 20), st.integers(-20, 20)), min_size=4, max_size=12
).filter(lambda pairs: all(len(set(side)) > 1 for side in zip(*pairs, strict=True)))


@given(few)
def test_both_coefficients_are_scipys_ties_or_not(pairs: Sequence[tuple[int, int]]) -> None:
    x, y = [float(a) for a, _ in pairs], [float(b) for _, b in pairs]
    assert pearson(x, y) == pytest.approx(scipy.stats.pearsonr(x, y).statistic, abs=1e-9)
    assert spearman(x, y) == pytest.approx(scipy.stats.spearmanr(x, y).statistic, abs=1e-9)


def test_one_point_is_one_arm_however_many_blocks_it_has() -> None:
    rates, ratios = (0.3, 0.5, 0.6, 0.9), (1.1, 0.9, 1.4, 1.6)
    one = [accepted(f"a{i}", rate, ratio) for i, (rate, ratio) in enumerate(zip(rates, ratios))]  # noqa: B905
    more = [accepted("a3", 0.9, 1.6, block) for block in range(2, 30)]
    (rate, length) = correlations([*one, *more])
    assert (rate.quantity, length.quantity) == ("acceptance_rate", "acceptance_length")
    assert rate.arms == 4
    expected = scipy.stats.pearsonr(rates, [math.log(ratio) for ratio in ratios]).statistic
    assert rate.pearson == pytest.approx(expected)
    # Ranks 1 2 3 4 against 2 1 3 4: 1 - 6 x 2 / 60.
    assert rate.spearman == pytest.approx(0.8)
    # Length is a line of the rate here.
    assert length.pearson == pytest.approx(expected)


def test_strata_and_metrics_are_never_pooled() -> None:
    points = [
        accepted(f"a{i}", i / 10, 1 + (i if stratum == "code" else -i) / 20, stratum=stratum)
        for stratum in ("code", "chat")
        for i in range(1, 6)
    ]
    found = {(item.stratum, item.quantity): item.spearman for item in correlations(points)}
    assert found["code", "acceptance_rate"] == pytest.approx(1)
    assert found["chat", "acceptance_rate"] == pytest.approx(-1)


def test_three_arms_give_no_correlation_and_say_so() -> None:
    points = [accepted(f"a{i}", i / 10, 1 + i) for i in range(1, 4)]
    found = correlations([*points, accepted("none", None, 1.0)])
    assert {(item.pearson, item.spearman, item.arms) for item in found} == {(None, None, 3)}
    assert found[0].note == "3 arms with acceptance: none under 4"


def test_equal_acceptance_gives_no_correlation_and_says_so() -> None:
    found = correlations([accepted(f"a{i}", 0.5, 1 + i) for i in range(4)])
    assert (found[0].pearson, found[0].note) == (None, "all arms are equal in one")
