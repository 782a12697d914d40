from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from specbench.analysis.drift import Placed, drift, never_shared, nodes
from specbench.order import arm_order


def placed(arm: str, block: int, place: int, value: float, host: str | None = "n1") -> Placed:
    return Placed(
        arm=arm, block=block, place=place, hours=block - 1 + place / 10, host=host, value=value
    )


def test_drift_of_one_arm_over_hours_is_scipys_regression() -> None:
    chance = np.random.default_rng(4)
    values = [placed("baseline", block, 1, math.exp(chance.normal())) for block in range(1, 9)]
    found = drift(values, "hours")
    theirs = stats.linregress([v.hours for v in values], [math.log(v.value) for v in values])
    half = float(stats.t.ppf(0.975, 6)) * theirs.stderr
    assert found.interval is not None
    assert found.change == pytest.approx(math.exp(theirs.slope))
    assert math.log(found.interval.low) == pytest.approx(theirs.slope - half)
    assert math.log(found.interval.high) == pytest.approx(theirs.slope + half)


def test_arms_and_blocks_do_not_pass_for_drift_over_places() -> None:
    arms, levels = ("baseline", "x", "y"), {"baseline": 1.0, "x": 1.4, "y": 0.8}
    values = []
    for block in range(1, 5):
        for place, arm in enumerate(arm_order(3, "counterbalanced", 1)(block), start=1):
            name = arms[arm]
            values.append(placed(name, block, place, levels[name] * 1.5**block * 0.99**place))
    found = drift(values, "place")
    assert found.change == pytest.approx(0.99)
    assert found.interval is not None
    assert found.interval.high == pytest.approx(0.99)


def test_a_place_that_never_changes_shows_no_drift_and_says_so() -> None:
    values = [
        placed(arm, b, p, 1.0 + b / 9) for b in range(1, 6) for p, arm in ((1, "a"), (2, "b"))
    ]
    found = drift(values, "place")
    assert (found.change, found.note) == (None, "every arm stood at the same place")


def test_few_deployments_show_no_drift() -> None:
    found = drift([placed("a", 1, 1, 1.0), placed("b", 1, 2, 1.1)], "hours")
    assert (found.change, found.note) == (None, "2 deployments are too few")


def test_a_node_is_set_against_the_arms_mean_over_nodes() -> None:
    found = list(nodes([placed("a", 1, 1, 90, "n1"), placed("a", 2, 1, 160, "n2")]))
    assert [(node.host, node.ratio) for node in found] == [
        ("n1", pytest.approx(0.75)),
        ("n2", pytest.approx(4 / 3)),
    ]


def test_an_arm_on_nodes_of_its_own_is_named_and_one_that_shared_a_node_is_not() -> None:
    values = [
        placed("baseline", 1, 1, 1, "n1"),
        placed("x", 1, 2, 1, "n2"),
        placed("y", 1, 3, 1, "n2"),
        placed("y", 2, 3, 1, "n1"),
        placed("z", 1, 4, 1, None),
    ]
    assert never_shared(values, {"baseline"}) == {
        "x": "it ran on n2 only, where no baseline did",
    }
