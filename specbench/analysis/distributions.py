"""Whether sampled outputs come from one distribution. Pure.

Sampled outputs are never equal, so that equality says nothing. Compared are lengths, first tokens
and n-grams, prompt by prompt. Three sets of outputs enter: the arm's, the baseline's, and a
control's, of another deployment of the baseline's configuration. What counts is by how much more
the arm is away from the baseline than the control is. If the arm samples as the control does, then
it is chance which of their outputs stands on which side: the permutation test is exact, whatever
the distributions are (Phipson and Smyth 2010 for the p-value, which is never 0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

import attrs
import numpy as np
from numpy.typing import NDArray

Outputs = Mapping[str, Sequence[Sequence[int]]]
"""Token ids of every output, by prompt."""
Numbers = NDArray[np.float64]
PERMUTATIONS = 999
NGRAM = 2
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
    respects: dict[str, Callable[[str, NDArray[np.intp]], Numbers]] = {
        "length": lambda name, sides: _length(arm[name], control[name], baseline[name], sides),
        "first_token": lambda name, sides: _shares(
            arm[name], control[name], baseline[name], sides, _first
        ),
        "ngram": lambda name, sides: _shares(
            arm[name], control[name], baseline[name], sides, _ngrams
        ),
    }
    chance = np.random.default_rng(seed)
    sides = {name: _sides(chance, len(arm[name]), permutations) for name in sorted(baseline)}
    found = []
    for respect, distances in respects.items():
        # Column 0 holds arm's side, column 1 the control's; row 0 is how they really were.
        means = np.mean([distances(name, sides[name]) for name in sorted(baseline)], axis=0)
        excess = means[:, 0] - means[:, 1]
        # A hair below counts as equal: the same numbers are summed in another order.
        as_far = int(np.sum(excess[1:] >= excess[0] - 1e-12))
        found.append(
            Distance(
                respect=respect,
                arm=float(means[0, 0]),
                control=float(means[0, 1]),
                p_value=(1 + as_far) / (1 + permutations),
            )
        )
    return tuple(found)


def differs(found: Sequence[Distance], alpha: float = 0.05) -> bool:
    """Tell whether an arm samples differently, with an error rate of at most `alpha` in all.

    Bonferroni over the respects, which depend on one another.
    """
    return min(item.p_value for item in found) * len(found) <= alpha


def _require_same_shape(arm: Outputs, control: Outputs, baseline: Outputs) -> None:
    if not baseline or not arm.keys() == control.keys() == baseline.keys():
        raise ValueError("arm, control and baseline have outputs of the same prompts, at least one")
    for name, outputs in baseline.items():
        if not len(arm[name]) == len(control[name]) == len(outputs) > 0:
            raise ValueError(f"prompt {name!r} has another number of outputs in one of them")


def _sides(chance: np.random.Generator, count: int, permutations: int) -> NDArray[np.intp]:
    """Give which of the 2 x count outputs stand on the arm's side, then on the control's."""
    whole = np.tile(np.arange(2 * count), (permutations + 1, 1))
    whole[1:] = chance.permuted(whole[1:], axis=1)
    return whole


def _length(
    arm: Sequence[Sequence[int]],
    control: Sequence[Sequence[int]],
    baseline: Sequence[Sequence[int]],
    sides: NDArray[np.intp],
) -> Numbers:
    count = len(baseline)
    lengths = np.array([len(output) for output in (*arm, *control)], dtype=float)[sides]
    wanted = np.sort([len(output) for output in baseline])
    return np.stack(
        [
            np.abs(np.sort(half, axis=1) - wanted).mean(axis=1)
            for half in (lengths[:, :count], lengths[:, count:])
        ],
        axis=1,
    )


def _shares(
    arm: Sequence[Sequence[int]],
    control: Sequence[Sequence[int]],
    baseline: Sequence[Sequence[int]],
    sides: NDArray[np.intp],
    features: Callable[[Sequence[int]], list[tuple[int, ...]]],
) -> Numbers:
    count = len(baseline)
    named = [features(output) for output in (*arm, *control, *baseline)]
    places = {name: place for place, name in enumerate(dict.fromkeys(chain(*named)))}
    shares = np.zeros((3 * count, len(places)))
    for row, names in enumerate(named):
        for name in names:
            shares[row, places[name]] += 1 / len(names)
    wanted = shares[2 * count :].mean(axis=0)
    return np.stack(
        [
            np.abs(shares[half].mean(axis=1) - wanted).sum(axis=1) / 2
            for half in (sides[:, :count], sides[:, count:])
        ],
        axis=1,
    )


def _first(output: Sequence[int]) -> list[tuple[int, ...]]:
    return [tuple(output[:1]) or _NONE]


def _ngrams(output: Sequence[int]) -> list[tuple[int, ...]]:
    grams = [tuple(output[at : at + NGRAM]) for at in range(len(output) - NGRAM + 1)]
    return grams or [_NONE]
