"""The smallest effect that a design can show, by the power of its t interval. Pure.

The log of a deployment's throughput is taken to be normal around its arm's, with a standard
deviation that is assumed beforehand (the deployment noise) and the same for every arm; what a block
does to all of its deployments cancels. A block's effect is the arm's log against the mean of its
plain baselines, so that it varies by noise x sqrt(1 + 1 / baselines), and Student's t of the mean
over blocks follows a noncentral t distribution (Johnson, Kotz and Balakrishnan, Continuous
Univariate Distributions 2, chapter 31).
"""

from __future__ import annotations

import math

import attrs

from specbench.analysis.intervals import CLAIM_BLOCKS, LEAST_BLOCKS, LEVEL

SIGNIFICANCE = 1 - LEVEL
"""Of one comparison, both sides together."""
OTHER_BLOCKS = (3, 5, 8, 12)
"""Numbers of blocks that a design's own is set beside."""


@attrs.frozen(kw_only=True)
class Detectable:
    """The smallest effect that a number of blocks shows with the asked power."""

    blocks: int
    single: float | None
    """As a ratio arm / baseline above 1, where one comparison is made. The inverse is the smallest
    loss. None where the design gives no interval."""
    holm_first: float | None
    """The same for the first step of Holm's procedure over all comparisons."""
    note: str
    """Why there is none, or that its interval is wide."""


@attrs.frozen(kw_only=True)
class Reach:
    """What a design could detect, under an assumed noise of its deployments."""

    blocks: int
    noise: float
    """Standard deviation of a deployment's log throughput; 0.02 is about 2%."""
    power: float
    """Chance that a real effect of the size given is shown."""
    baselines: int
    """Plain baselines of a block: 2 with a noise floor."""
    comparisons: int
    """Arms x workloads, over which Holm's procedure goes."""
    effects: tuple[Detectable, ...]
    """For the design's blocks and for some other numbers of them, rising."""


def reach(blocks: int, *, noise: float, power: float, baselines: int, comparisons: int) -> Reach:
    """Give what a design of so many blocks can show, and what others could.

    Raises:
        ValueError: A number lies where there is no answer.
    """
    return Reach(
        blocks=blocks,
        noise=noise,
        power=power,
        baselines=baselines,
        comparisons=comparisons,
        effects=tuple(
            detectable(
                count, noise=noise, power=power, baselines=baselines, comparisons=comparisons
            )
            for count in sorted({blocks, *OTHER_BLOCKS})
        ),
    )


def detectable(
    blocks: int, *, noise: float, power: float, baselines: int, comparisons: int
) -> Detectable:
    """Give what so many blocks can show.

    Raises:
        ValueError: A number lies where there is no answer.
    """
    if blocks < LEAST_BLOCKS or not comparisons:
        said = f"no interval under {LEAST_BLOCKS} blocks" if comparisons else "nothing to compare"
        return Detectable(blocks=blocks, single=None, holm_first=None, note=said)

    def ratio(significance: float) -> float:
        return math.exp(
            smallest_log_effect(
                blocks, noise=noise, baselines=baselines, significance=significance, power=power
            )
        )

    return Detectable(
        blocks=blocks,
        single=ratio(SIGNIFICANCE),
        # The largest of the effects must pass at this level before any other is looked at.
        holm_first=ratio(SIGNIFICANCE / comparisons),
        note=f"wide; a claim needs {CLAIM_BLOCKS} blocks" if blocks < CLAIM_BLOCKS else "",
    )


def smallest_log_effect(
    blocks: int, *, noise: float, baselines: int, significance: float, power: float
) -> float:
    """Give the log ratio that a two-sided t interval lies above with a chance of `power`.

    Raises:
        ValueError: Fewer than 2 blocks, no baseline, no noise, or a chance that no effect has: one
            of `significance` / 2 is there without any effect.
    """
    if blocks < 2 or baselines < 1 or noise <= 0:  # noqa: PLR2004 - one block has no spread
        raise ValueError("the power of a design needs 2 blocks, a baseline and some noise")
    if not 0 < significance / 2 <= power < 1:
        raise ValueError(f"power must lie between {significance / 2:g} and 1, not at {power:g}")
    from scipy.optimize import brentq  # scipy takes 0.7 s to import
    from scipy.stats import nct, t

    freedom = blocks - 1
    critical = float(t.isf(significance / 2, freedom))

    def lack(noncentrality: float) -> float:
        return float(nct.sf(critical, freedom, noncentrality)) - power

    high = critical
    while lack(high) < 0:
        high *= 2
    noncentrality = float(brentq(lack, 0, high)) if lack(0) < 0 else 0.0
    return noncentrality * effect_deviation(noise, baselines) / math.sqrt(blocks)


def effect_deviation(noise: float, baselines: int) -> float:
    """Give the standard deviation of a block's log ratio against the mean of its baselines."""
    return noise * math.sqrt(1 + 1 / baselines)
