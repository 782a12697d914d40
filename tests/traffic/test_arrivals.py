from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.experiment.load import OpenLoad
from specbench.traffic.arrivals import arrivals_ns


def gaps_s(load: OpenLoad, rate: float, seed: str = "s") -> np.ndarray:
    return np.diff([0, *arrivals_ns(load, rate, seed)]) / 1e9


def test_poisson_gaps_are_exponential() -> None:
    gaps = gaps_s(OpenLoad(rate=(5.0,), requests=20_000), 5.0)
    # Mean 1 / rate with a standard error of 0.2 / sqrt(20000) = 0.0014; deviation equals mean; and
    # a share exp(-1) of the gaps is longer than the mean.
    assert gaps.mean() == pytest.approx(0.2, abs=0.006)
    assert gaps.std() == pytest.approx(0.2, abs=0.01)
    assert (gaps > 0.2).mean() == pytest.approx(np.exp(-1), abs=0.015)


def test_a_poisson_load_is_not_rescaled_to_its_rate() -> None:
    """A Poisson count over a duration varies as its root: 400 expected, 20 the deviation."""
    load = OpenLoad(rate=(40.0,), duration_s=10.0)
    counts = [len(arrivals_ns(load, 40.0, f"seed {n}")) for n in range(200)]
    assert np.mean(counts) == pytest.approx(400, abs=6)
    assert np.std(counts) == pytest.approx(20, abs=4)


def test_gamma_gaps_have_the_asked_variation() -> None:
    gaps = gaps_s(OpenLoad(rate=(10.0,), requests=50_000, arrivals="gamma", variation=2.0), 10.0)
    assert gaps.mean() == pytest.approx(0.1, abs=0.004)
    assert gaps.std() / gaps.mean() == pytest.approx(2.0, abs=0.1)


def test_constant_gaps_do_not_drift() -> None:
    load = OpenLoad(rate=(3.0,), requests=9_000, arrivals="constant")
    assert arrivals_ns(load, 3.0, "s")[-1] == pytest.approx(3_000e9, abs=1_000)


def test_a_trace_is_replayed_as_it_is() -> None:
    load = OpenLoad(arrivals="trace", trace="x")
    assert arrivals_ns(load, 9.0, "s", (0.0, 0.25, 0.25, 3.0)) == (
        0,
        250_000_000,
        250_000_000,
        3 * 10**9,
    )
    cut = OpenLoad(arrivals="trace", trace="x", duration_s=1.0)
    assert len(arrivals_ns(cut, 9.0, "s", (0.0, 0.25, 0.25, 3.0))) == 3


@given(
    rate=st.floats(0.01, 1000),
    requests=st.integers(2, 200),
    kind=st.sampled_from(["poisson", "gamma", "constant"]),
)
def test_arrivals_are_in_order_counted_and_seeded(rate: float, requests: int, kind: str) -> None:
    load = OpenLoad(rate=(rate,), requests=requests, arrivals=kind)
    found = arrivals_ns(load, rate, "seed")
    assert len(found) == requests
    assert list(found) == sorted(found)
    assert found == arrivals_ns(load, rate, "seed")
    assert kind == "constant" or found != arrivals_ns(load, rate, "another")
