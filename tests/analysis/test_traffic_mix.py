from __future__ import annotations

import math

import pytest

from specbench.analysis.effects import Point, paired
from specbench.analysis.traffic_mix import MixedTraffic, traffic_mix

SHARES = {"chat": 0.75, "code": 0.25}


def mixed(values: list[tuple[int, str, str, float | None]]) -> tuple[MixedTraffic, ...]:
    found = [
        Point(
            block=block,
            arm=arm,
            role="baseline" if arm == "baseline" else "arm",
            stratum=stratum,
            sampling="greedy",
            concurrency=8,
            metric="window_s_per_request",
            value=value,
            excluded="" if value else "success_rate",
        )
        for block, arm, stratum, value in values
    ]
    return traffic_mix(paired(found), SHARES)


def block(number: int, chat: float | None, code: float) -> list[tuple[int, str, str, float | None]]:
    return [
        (number, "baseline", "chat", 2.0),
        (number, "x", "chat", chat),
        (number, "baseline", "code", 4.0),
        (number, "x", "code", code),
    ]


def test_a_speedup_is_the_ratio_of_mixed_times_worked_out_by_hand() -> None:
    # 0.75 x 2 + 0.25 x 4 = 2.5 s; 0.75 x 2.4 + 0.25 x 0.8 = 2.0 s. A mean of ratios says 1.875.
    (mix,) = mixed(block(1, 2.4, 0.8))
    assert mix.speedup == pytest.approx(1.25)
    assert (mix.interval, mix.interval_note) == (None, "1 block: no interval under 3")


def test_blocks_are_averaged_as_ratios_and_a_block_without_a_stratum_is_named() -> None:
    (mix,) = mixed([*block(1, 2.4, 0.8), *block(2, 2.0, 4.0), *block(3, None, 0.8)])
    assert mix.speedups == pytest.approx({1: 1.25, 2: 1.0})
    assert mix.speedup == pytest.approx(math.sqrt(1.25))
    assert mix.missing == ("block 3: no ratio of chat",)


def test_without_declared_shares_there_is_none() -> None:
    assert traffic_mix((), {}) == ()
