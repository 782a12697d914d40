from __future__ import annotations

import pytest

from specbench.facts import Sample
from specbench.judge.samples import clock_verdicts, summarise
from tests.conftest import row

SECOND = 10**9


def server(at_s: float, **values: float) -> list[Sample]:
    return [
        Sample(at_ns=round(at_s * SECOND), of="server", quantity=quantity, value=value)
        for quantity, value in values.items()
    ]


def gpu(number: int, at_s: float, **values: float) -> list[Sample]:
    return [
        Sample(at_ns=round(at_s * SECOND), of=f"gpu{number}", quantity=quantity, value=value)
        for quantity, value in values.items()
    ]


ROWS = [
    row(index=place, sent_ns=place * SECOND, ended_ns=(place + 2) * SECOND) for place in range(11)
]
"""Sends at 0 to 10 s; the last ends at 12 s. At concurrency 2 the steady part is 1 to 10 s."""


def test_running_is_averaged_over_the_steady_part_alone() -> None:
    instants = [at / 2 for at in range(26)]
    samples = [s for at in instants for s in server(at, running=2.0 if 1 <= at <= 10 else 0.0)]
    # No send lies between 10.5 s and the end, so 19 of 20 samples would be too few.
    samples += server(9.75, running=2.0)
    assert summarise(samples, ROWS, concurrency=2, tokens=100).running_mean == 2.0


def test_few_samples_give_no_mean_and_yet_their_extremes() -> None:
    samples = [*server(2, running=2, waiting=1, kv_usage=0.4), *server(3, waiting=3, kv_usage=0.9)]
    found = summarise(samples, ROWS, concurrency=2, tokens=100)
    assert found.running_mean is None
    assert (found.waiting_max, found.kv_usage_max) == (3, 0.9)


def test_energy_of_all_accelerators_is_scaled_to_the_window() -> None:
    samples = [
        *gpu(0, 1, energy_j=1000.0, power_w=300.0, sm_clock_mhz=1980),
        *gpu(1, 1, energy_j=50.0, power_w=100.0, sm_clock_mhz=1980),
        *gpu(0, 11, energy_j=4000.0, power_w=300.0, sm_clock_mhz=1780),
        *gpu(1, 11, energy_j=1050.0, power_w=100.0, sm_clock_mhz=1980),
    ]
    found = summarise(samples, ROWS, concurrency=2, tokens=480)
    # 3000 J + 1000 J in 10 s of samples, over a window of 12 s: 4800 J for 480 tokens.
    assert found.energy_per_token_j == pytest.approx(10.0)
    assert found.power_w == 400.0
    assert found.sm_clock_mhz == 1930.0


def test_without_samples_everything_is_unknown() -> None:
    found = summarise((), ROWS, concurrency=2, tokens=100)
    assert found.samples == 0
    assert found.running_mean is None
    assert found.energy_per_token_j is None
    assert found.sm_activity is None


def test_a_cell_whose_clock_fell_is_flagged_and_not_rejected() -> None:
    found = clock_verdicts({"a": 1980, "b": 1980, "c": 1882, "d": 1880})
    # 5% below 1931, the median of four, is 1834.45: none is.
    assert found == {}
    found = clock_verdicts({"a": 1980, "b": 1980, "c": 1980, "d": 1880})
    assert list(found) == ["d"]
    assert found["d"].outcome == "undecided"
    assert found["d"].observed == "1880 MHz, 5.1% below the median of its load"


def test_one_cell_has_nothing_to_be_slower_than() -> None:
    assert clock_verdicts({"a": 100}) == {}
