from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy import stats

from specbench.analysis.bootstrap import MEASURED_COVERAGE, bootstrap, percentile_bounds

LOGS = [0.02, 0.05, 0.03, 0.08, 0.01]


def test_a_bootstrap_agrees_with_scipys_percentile_bootstrap() -> None:
    found = bootstrap(LOGS)
    assert found is not None
    theirs = stats.bootstrap(
        (LOGS,), np.mean, method="percentile", n_resamples=20_000, rng=np.random.default_rng(1)
    ).confidence_interval
    assert math.log(found.interval.low) == pytest.approx(theirs.low, abs=1.5e-3)
    assert math.log(found.interval.high) == pytest.approx(theirs.high, abs=1.5e-3)


def test_bounds_are_those_of_every_way_to_draw_three_blocks() -> None:
    # 27 ways; the least mean, all three times the smallest block, has 1 / 27 > 2.5%.
    logs = [0.0, 0.1, 0.4]
    means = [np.mean(drawn) for drawn in product(logs, repeat=3)]
    low, high = percentile_bounds(np.array([logs]))[0]
    assert (low, high) == pytest.approx((min(means), max(means)))


def test_equal_evidence_gives_equal_bounds_in_one_row_and_in_many() -> None:
    rows = np.array([LOGS, LOGS[::-1]])
    assert percentile_bounds(rows)[0] == pytest.approx(percentile_bounds(rows[:1])[0])
    assert bootstrap(LOGS) == bootstrap(LOGS)


def test_there_is_none_under_3_blocks() -> None:
    assert bootstrap(LOGS[:2]) is None


@pytest.mark.parametrize(("blocks", "measured"), [(3, 3), (5, 5), (7, 6), (11, 8), (40, 12)])
def test_the_label_never_comes_from_more_blocks_than_there_are(blocks: int, measured: int) -> None:
    found = bootstrap([0.01 * place for place in range(blocks)])
    assert found is not None
    assert found.coverage == MEASURED_COVERAGE[measured]
