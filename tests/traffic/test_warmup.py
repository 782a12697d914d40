from __future__ import annotations

import asyncio

import pytest

from specbench.facts import Window
from specbench.traffic.warmup import agree, warm
from tests.conftest import row


@pytest.mark.parametrize(
    ("rates", "agreed"),
    [
        ([], False),
        ([10], False),
        ([10, 10.9], True),
        ([10, 11.2], False),
        ([5, 10, 10.5], True),
        ([0, 0], False),
    ],
)
def test_two_waves_agree_within_a_tenth_of_the_larger(rates: list[float], agreed: bool) -> None:
    assert agree(rates) is agreed


def waves(*seconds: float):
    async def drive(number: int) -> Window:
        end = int(seconds[number] * 1e9)
        return Window(
            rows=(row(0, ended_ns=end, completion_tokens=100),),
            outputs=(),
            concurrency=1,
            clock="user",
            started_unix_s=0.0,
        )

    return drive


def test_warming_ends_when_two_waves_agree() -> None:
    warmed = asyncio.run(warm(waves(4.0, 1.0, 1.01, 1.0)))
    assert warmed.wave_tokens_per_s == pytest.approx((25, 100, 100 / 1.01))
    assert warmed.agreed


def test_warming_that_never_agrees_stops_at_four_waves_and_says_so() -> None:
    warmed = asyncio.run(warm(waves(8.0, 4.0, 2.0, 1.0)))
    assert (len(warmed.wave_tokens_per_s), warmed.agreed) == (4, False)
