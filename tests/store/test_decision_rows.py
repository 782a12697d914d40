"""Rows of a confirmation with five blocks, from values made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from specbench.analysis.effects import Point, Role, paired
from specbench.artifacts import RunFolder
from specbench.store.comparisons import Comparison
from specbench.store.decision_rows import SIMULATED, DecisionRows, decision_rows
from specbench.store.judged_run import JudgedRun

VALUES: Mapping[tuple[str, Role], tuple[float, ...]] = {
    ("baseline", "baseline"): (100, 101, 99, 100, 102),
    ("baseline-repeat", "noise_floor"): (101, 100, 100, 99, 103),
    ("x", "arm"): (110, 111, 108, 112, 113),
}


def ruled(*, simulated: bool = False, blocked: Mapping[str, str] | None = None) -> DecisionRows:
    experiment = {
        "stage": "confirmation",
        "load": {"closed": {"concurrency": [8]}, "open": None},
        "decision": {"traffic_mix": {"code": 1.0}},
    }
    run = JudgedRun(RunFolder(Path("run")), {"experiment": experiment, "simulated": simulated})
    found = paired(
        Point(
            block=block,
            arm=arm,
            role=role,
            stratum="code",
            sampling="greedy",
            concurrency=8,
            metric="output_throughput",
            value=value,
        )
        for (arm, role), values in VALUES.items()
        for block, value in enumerate(values, start=1)
    )
    shipped = Comparison(kind="shipped", denominator="baseline", deployments=(), told=())
    return decision_rows(run, shipped, found, (), blocked or {})


def only(rows: list[dict[str, Any]]) -> dict[str, Any]:
    (row,) = rows
    return row


def test_a_clear_gain_of_a_confirmation_is_claimed_with_everything_that_it_rests_on() -> None:
    found = ruled()
    row = only(found.decisions)
    assert (row["gain"], row["reasons"], row["regression"]) == ("claimed", (), "shown_absent")
    assert row["low"] < row["bootstrap_low"] < row["estimate"] < row["bootstrap_high"] < row["high"]
    assert row["bootstrap_coverage"] < 0.95
    assert row["p_holm"] == row["p_value"] < 0.05
    assert row["beside"] == []
    assert only(found.aa_validity)["outcome"] == "pass"


def test_every_block_of_an_arm_and_of_the_noise_floor_is_kept() -> None:
    found = ruled().decision_repeats
    assert [(row["arm"], row["block"]) for row in found] == [
        (arm, block) for arm in ("baseline-repeat", "x") for block in range(1, 6)
    ]
    # Block 1: 110 against the geometric mean of 100 and 101.
    assert found[5]["gain"] == pytest.approx(110 / 10_100**0.5)


def test_a_blocked_arm_is_never_claimed_and_says_why() -> None:
    row = only(ruled(blocked={"x": "prompt p3 parts from the baseline"}).decisions)
    said = "correctness is blocked: prompt p3 parts from the baseline"
    assert (row["gain"], row["regression"]) == ("withheld", "unresolved")
    assert said in row["reasons"]
    assert said in row["beside"]


def test_a_simulated_gain_is_marked_beside_its_number() -> None:
    assert only(ruled(simulated=True).decisions)["beside"] == [SIMULATED]
