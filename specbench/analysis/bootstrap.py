"""The percentile bootstrap over deployments, shown beside the decision interval. Pure.

Blocks are drawn again with replacement: the deployments of a block stay together, as effects pair
them. With the few blocks that GPU hours allow, the interval is too narrow (Efron and Tibshirani
1993, chapter 14: the percentile bootstrap keeps no correction for the spread of few values), so it
decides nothing and carries how often such an interval was measured to hold the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import attrs
import numpy as np
from numpy.typing import NDArray

from specbench.analysis.intervals import LEAST_BLOCKS, LEVEL, Interval

RESAMPLES = 9_999
MEASURED_COVERAGE = {3: 0.75, 4: 0.80, 5: 0.84, 6: 0.86, 8: 0.88, 12: 0.91}
"""By number of blocks, under normal noise: `python benchmarks/validity.py`, docs/statistics.md."""


@attrs.frozen(kw_only=True)
class Bootstrap:
    """A 95% percentile interval over blocks."""

    interval: Interval
    coverage: float
    """How often such an interval holds the truth, measured at this number of blocks or at the next
    smaller one that was."""


def bootstrap(logs: Sequence[float]) -> Bootstrap | None:
    """Give the bootstrap interval of a geometric mean; None under 3 blocks."""
    if len(logs) < LEAST_BLOCKS:
        return None
    low, high = percentile_bounds(np.asarray(logs, dtype=float)[None, :])[0]
    measured = max(count for count in MEASURED_COVERAGE if count <= len(logs))
    return Bootstrap(
        interval=Interval(float(np.exp(low)), float(np.exp(high))),
        coverage=MEASURED_COVERAGE[measured],
    )


def percentile_bounds(logs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Give lower and upper bounds of the mean of logs, of every row (an experiment) of blocks.

    The same drawn blocks serve every call, so that equal evidence gives equal bounds.
    """
    means = logs @ _weights(logs.shape[1])
    tail = (1 - LEVEL) / 2
    return np.quantile(means, [tail, 1 - tail], axis=1).T


@cache
def _weights(blocks: int) -> NDArray[np.float64]:
    """Give how much each block (a row) weighs in each resample (a column)."""
    chance = np.random.default_rng(blocks)
    drawn = chance.multinomial(blocks, np.full(blocks, 1 / blocks), size=RESAMPLES)
    return np.ascontiguousarray(drawn.T / blocks)
