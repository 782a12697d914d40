"""Whether sampled outputs come from one distribution. Pure.

Sampled outputs are never equal, so that equality says nothing. Compared are lengths, first tokens
and n-grams, prompt by prompt. Three sets of outputs enter: the arm's, the baseline's, and a
control's, of another deployment of the baseline's configuration. What counts is by how much more
the arm is away from the baseline than the control is. If the arm samples as the control does, then
it is chance which of their outputs stands on which side: the permutation test is exact, whatever
the distributions are (Phipson and Smyth 2010 for the p-value, which is never 0).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, combinations

import attrs
import numpy as np
from numpy.typing import NDArray

Outputs = Mapping[str, Sequence[Sequence[int]]]
"""Token ids of every output, by prompt."""
Numbers = NDArray[np.float64]
Halves = NDArray[np.bool_]
"""A row for each way to divide outputs: true for those on the arm's side."""
Features = Callable[[Sequence[int]], list[tuple[int, ...]]]
Distances = Callable[[Sequence[Sequence[int]], Sequence[Sequence[int]], Halves], Numbers]
"""Outputs of arm and control, then the baseline's: the distance of both sides, a row a division."""
PERMUTATIONS = 999
NGRAM = 2
_NUMBERS_AT_ONCE = 2_000_000
"""Numbers of a matrix that is held at once: 16 MB."""
_NONE = (-1,)
"""Stands for what an output is too short to have."""


@attrs.frozen(kw_only=True)
class Distance:
    """How far two sets of outputs are from the baseline's, in one respect."""

    respect: str
    """length (in tokens), first_token or ngram (shares from 0 to 1)."""
    arm: float
    control: float
    p_value: float
    """Chance of an arm that much further away than the control, when it samples as the control."""


def compare(
    arm: Outputs,
    control: Outputs,
    baseline: Outputs,
    *,
    seed: int = 0,
    permutations: int = PERMUTATIONS,
) -> tuple[Distance, ...]:
    """Give the distances of arm and control from the baseline, each a mean over prompts.

    length: the mean difference of sorted lengths (the first Wasserstein distance). first_token and
    ngram: the total variation between mean shares, in which every output weighs the same.

    Raises:
        ValueError: The sets have other prompts, or another number of outputs of one.
    """
    _require_same_shape(arm, control, baseline)
    chance = np.random.default_rng(seed)
    # By respect, permutation (first how they really were) and side: of the arm, of the control.
    totals = np.zeros((len(RESPECTS), 1 + permutations, 2))
    for name in sorted(baseline):
        halves, drawn = _halves(chance, len(baseline[name]), permutations)
        sides = [*arm[name], *control[name]]
        for place, distances in enumerate(RESPECTS.values()):
            totals[place] += distances(sides, baseline[name], halves)[drawn]
    means = totals / len(baseline)
    excess = means[:, :, 0] - means[:, :, 1]
    # A hair below counts as equal: the same numbers are summed in another order.
    as_far = (excess[:, 1:] >= excess[:, :1] - 1e-12).sum(axis=1)
    return tuple(
        Distance(
            respect=respect,
            arm=float(means[place, 0, 0]),
            control=float(means[place, 0, 1]),
            p_value=float((1 + as_far[place]) / (1 + permutations)),
        )
        for place, respect in enumerate(RESPECTS)
    )


def least_p_value(counts: Iterable[int], permutations: int = PERMUTATIONS) -> float:
    """Give the smallest p-value that sets with so many outputs of each prompt a side can reach."""
    arrangements = math.prod(math.comb(2 * count, count) for count in counts)
    return max(1 / (1 + permutations), 1 / arrangements)


def _require_same_shape(arm: Outputs, control: Outputs, baseline: Outputs) -> None:
    if not baseline or not arm.keys() == control.keys() == baseline.keys():
        raise ValueError("arm, control and baseline have outputs of the same prompts, at least one")
    for name, outputs in baseline.items():
        if not len(arm[name]) == len(control[name]) == len(outputs) > 0:
            raise ValueError(f"prompt {name!r} has another number of outputs in one of them")


def _halves(
    chance: np.random.Generator, count: int, permutations: int
) -> tuple[Halves, NDArray[np.intp]]:
    """Give ways to put `count` of 2 x count outputs on the arm's side, and which one each draw is.

    The first draw is how they really were. Few outputs have few ways: each is worked out once.
    """
    ways = math.comb(2 * count, count)
    if ways <= permutations:
        chosen = np.array(list(combinations(range(2 * count), count)))
        halves = (chosen[:, :, np.newaxis] == np.arange(2 * count)).any(axis=1)
        # The first combination is that of the first outputs, which are the arm's.
        return halves, np.concatenate([[0], chance.integers(ways, size=permutations)])
    halves = np.tile(np.arange(2 * count) < count, (1 + permutations, 1))
    halves[1:] = chance.permuted(halves[1:], axis=1)
    return halves, np.arange(1 + permutations)


def _length(
    sides: Sequence[Sequence[int]], baseline: Sequence[Sequence[int]], halves: Halves
) -> Numbers:
    lengths = np.array([len(output) for output in sides], dtype=float)
    order = np.argsort(lengths, kind="stable")
    rising, chosen = np.broadcast_to(lengths[order], halves.shape), halves[:, order]
    wanted = np.sort([len(output) for output in baseline])
    return np.stack(
        [
            np.abs(rising[half].reshape(-1, len(baseline)) - wanted).mean(axis=1)
            for half in (chosen, ~chosen)
        ],
        axis=1,
    )


def _variation(features: Features) -> Distances:
    """Give the total variation of the shares of features, in which every output weighs the same."""

    def distances(
        sides: Sequence[Sequence[int]], baseline: Sequence[Sequence[int]], halves: Halves
    ) -> Numbers:
        count = len(baseline)
        named = [features(output) for output in (*sides, *baseline)]
        places = {name: place for place, name in enumerate(dict.fromkeys(chain(*named)))}
        shares = np.zeros((3 * count, len(places)))
        for row, names in enumerate(named):
            for name in names:
                shares[row, places[name]] += 1 / len(names) / count
        wanted, shares = shares[2 * count :].sum(axis=0), shares[: 2 * count]
        told = wanted > 0
        # Only features that both have need a look: what others add is a plain sum.
        both = told & shares.any(axis=0)
        others = shares[:, ~told].sum(axis=1)
        apart = wanted[told & ~both].sum()
        shares, wanted = shares[:, both], wanted[both]
        parts = np.array_split(halves, 1 + halves.shape[0] * len(wanted) // _NUMBERS_AT_ONCE)
        return np.concatenate(
            [
                np.stack(
                    [
                        (np.abs(half @ shares - wanted).sum(axis=1) + half @ others + apart) / 2
                        for half in (part, ~part)
                    ],
                    axis=1,
                )
                for part in parts
            ]
        )

    return distances


def _first(output: Sequence[int]) -> list[tuple[int, ...]]:
    return [tuple(output[:1]) or _NONE]


def _ngrams(output: Sequence[int]) -> list[tuple[int, ...]]:
    grams = [tuple(output[at : at + NGRAM]) for at in range(len(output) - NGRAM + 1)]
    return grams or [_NONE]


RESPECTS: Mapping[str, Distances] = {
    "length": _length,
    "first_token": _variation(_first),
    "ngram": _variation(_ngrams),
}
