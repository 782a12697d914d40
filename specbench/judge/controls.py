"""Controls: pairs of captures of one configuration, the null of the correctness gate. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise, product
from typing import Literal

import attrs

from specbench.capture_facts import Capture
from specbench.judge.output_pairs import OutputPair, compare

Control = Literal["cross-deployment", "within-deployment"]


@attrs.frozen(kw_only=True)
class ControlPairs:
    """Pairs of captures of one configuration: how far equal servers differ."""

    kind: Control
    arm: str
    pairs: tuple[OutputPair, ...]
    compared: bool
    """The seed rule compares with them. The others are reported, or can only explain."""


def cross_deployment(plain: Sequence[Capture]) -> Iterator[OutputPair]:
    """Give cross-deployment pairs of the baseline: first those inside a block, then between.

    The order is fixed before any outcome is seen. Captures of one number have one order.
    """
    for one, other in combinations(plain, 2):
        if one.block == other.block and _comparable(one, other):
            yield compare(one, other)
    baselines = [capture for capture in plain if capture.role == "baseline"]
    for earlier, later in pairwise(sorted({capture.block for capture in baselines})):
        for one, other in product(baselines, baselines):
            if (one.block, other.block) == (earlier, later) and _comparable(one, other):
                yield compare(one, other)


def within_deployment(plain: Sequence[Capture]) -> ControlPairs:
    """Give the pairs of the baseline's captures by one server."""
    return ControlPairs(
        kind="within-deployment", arm=plain[0].arm, pairs=tuple(_within(plain)), compared=False
    )


def own_controls(arm: str, own: Sequence[Capture]) -> Iterator[ControlPairs]:
    """Give an arm's own controls. They are reported: a loose one must not excuse the arm."""
    yield ControlPairs(kind="within-deployment", arm=arm, pairs=tuple(_within(own)), compared=False)
    cross = tuple(
        compare(one, other)
        for one, other in combinations(own, 2)
        if one.block != other.block and _comparable(one, other)
    )
    yield ControlPairs(kind="cross-deployment", arm=arm, pairs=cross, compared=False)


def _within(captures: Sequence[Capture]) -> Iterator[OutputPair]:
    for one, other in combinations(captures, 2):
        if one.deployment == other.deployment and one.number != other.number:
            yield compare(one, other)


def _comparable(one: Capture, other: Capture) -> bool:
    """Tell whether two captures are of two servers and of one order."""
    return one.deployment != other.deployment and one.number == other.number
