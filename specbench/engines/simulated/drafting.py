"""What a method drafts at each place of an answer, and how much of it the target accepts. Pure.

A draft model and a head accept by a chain: position i is accepted with a chance that depends on the
genre and on i, given that all before it were. Prompt lookup proposes what really followed the same
words earlier, and is right where the answer really goes on like that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, Protocol

import attrs
import numpy as np

from specbench.engines.simulated.served import SUFFIX_DEPTH
from specbench.engines.simulated.speculative_config import lookup_bounds, method_of
from specbench.engines.simulated.text import Genre, Text

BATCH_TIERS = "num_speculative_tokens_per_batch_size"

Chain = tuple[float, ...]
"""Chance of each position given all before it; the last value goes on for ever."""


@attrs.frozen(kw_only=True)
class Tier:
    """A draft length that holds from a batch size on."""

    batch_size: int
    depth: int


@attrs.frozen(kw_only=True)
class Drafting:
    """How one arm drafts."""

    method: str = "none"
    depth: int = 0
    """Most tokens of a draft; 0 without speculation."""
    chains: Mapping[Genre, Chain] = attrs.field(factory=dict)
    """Used by methods that draft with a model."""
    lookup: tuple[int, int] | None = None
    """Shortest and longest n-gram, for methods that look their drafts up."""
    synthetic: Chain | None = None
    """Survival rates that replace the verification: the text is no longer the target's."""
    tiers: tuple[Tier, ...] = ()

    def depth_at(self, batch_size: int) -> int:
        """Give the draft length for a batch of this size."""
        depth = self.depth
        for tier in self.tiers:
            if batch_size >= tier.batch_size:
                depth = min(tier.depth, self.depth)
        return depth


class Offers(Protocol):
    """What is drafted at each place of one answer."""

    def at(self, place: int) -> tuple[int, int]:
        """Give the longest draft for the tokens from here on, and how many of it are accepted."""


@attrs.frozen
class Chained:
    """Drafts of a model: always the full depth, accepted as the chain fell."""

    depth: int
    accepted: bytes
    """By place."""

    def at(self, place: int) -> tuple[int, int]:
        """Give the draft's length and its accepted tokens."""
        return self.depth, self.accepted[place]


class LookedUp:
    """Drafts that are looked up in all text so far: the longest n-gram, where it first stood.

    As vLLM's n-gram proposer does (vllm/v1/spec_decode/ngram_proposer.py, 0.32). The suffix method
    drafts no more tokens than it matched, so that the draft's length varies.
    """

    def __init__(
        self, drafting: Drafting, lookup: tuple[int, int], prompt: Sequence[str], answer: Text
    ) -> None:
        self._depth = drafting.depth
        self._as_matched = drafting.method == "suffix"
        self._shortest, self._longest = lookup
        self._prompt = prompt
        self._answer = answer
        self._text = list(prompt)
        self._ends: dict[tuple[str, ...], int] = {}
        """Where each n-gram first ended."""
        self._indexed = 0
        self._found: list[tuple[int, int]] = []

    def at(self, place: int) -> tuple[int, int]:
        """Give the draft's length and its accepted tokens; the length is 0 without a match."""
        while len(self._found) <= place:
            self._found.append(self._look(len(self._found)))
        return self._found[place]

    def _look(self, place: int) -> tuple[int, int]:
        text, end = self._text, len(self._prompt) + place
        reached = len(text) - len(self._prompt)
        text += self._answer.between(reached, max(place + self._depth, reached))
        self._index(end - 1)
        for size in range(min(self._longest, end), self._shortest - 1, -1):
            start = self._ends.get(tuple(text[end - size : end]))
            if start is not None:
                most = min(self._depth, size) if self._as_matched else self._depth
                length = min(most, end - start)
                drafted, real = text[start : start + length], text[end : end + length]
                wrong = (one != other for one, other in zip(drafted, real, strict=True))
                return length, next((i for i, differs in enumerate(wrong) if differs), length)
        return 0, 0

    def _index(self, until: int) -> None:
        """Note the n-grams that end by `until`: the one that is looked up must not find itself."""
        for stop in range(self._indexed + 1, until + 1):
            for size in range(self._shortest, min(self._longest, stop) + 1):
                self._ends.setdefault(tuple(self._text[stop - size : stop]), stop)
        self._indexed = max(self._indexed, until)


def drafting(
    speculation: Mapping[str, Any] | None, chains: Mapping[str, Mapping[Genre, Chain]]
) -> Drafting:
    """Read a speculative configuration as vLLM 0.32 does. `chains` are the preset's, by method.

    A method that the preset has no chain for drafts like its draft model.
    """
    if not speculation:
        return Drafting()
    method = method_of(speculation)
    depth = int(speculation.get("num_speculative_tokens") or SUFFIX_DEPTH)
    tiers = tuple(
        Tier(batch_size=int(start), depth=int(k))
        for start, _, k in speculation.get(BATCH_TIERS, ())
    )
    lookup = None
    if method.startswith("ngram"):
        lookup = lookup_bounds(
            speculation.get("prompt_lookup_min"), speculation.get("prompt_lookup_max")
        )
    elif method == "suffix":
        lookup = (1, depth)
    return Drafting(
        method=method,
        depth=depth,
        chains=chains.get(method, chains["draft_model"]),
        lookup=lookup,
        synthetic=_synthetic(speculation, depth),
        tiers=tiers,
    )


def offers(
    drafting: Drafting, *, prompt: Sequence[str], answer: Text, length: int, genre: Genre, key: str
) -> Offers:
    """Give what is drafted, and accepted of it, at each place of an answer of `length` tokens."""
    if drafting.lookup is not None and drafting.synthetic is None:
        return LookedUp(drafting, drafting.lookup, prompt, answer)
    draw = Random(f"{key}/accept/{drafting.method}").random  # noqa: S311 - reproducible, not secret
    survival = drafting.synthetic or _survival(drafting.chains.get(genre, ()), drafting.depth)
    chances = np.array([draw() for _ in range(length)]).reshape(-1, 1)
    accepted = (chances < np.array(survival)).sum(axis=1).astype(np.uint8).tobytes()
    return Chained(drafting.depth, accepted)


def _survival(chain: Chain, depth: int) -> Chain:
    rates, rate = [], 1.0
    for position in range(depth):
        rate *= chain[min(position, len(chain) - 1)] if chain else 0.0
        rates.append(rate)
    return tuple(rates)


def _synthetic(speculation: Mapping[str, Any], depth: int) -> Chain | None:
    """Give the survival rates of synthetic acceptance, from rates or from a mean length."""
    if speculation.get("rejection_sample_method") != "synthetic":
        return None
    rates = speculation.get("synthetic_acceptance_rates")
    if rates is not None:
        return tuple(float(rate) for rate in rates)
    return _survival(
        (_chance(float(speculation["synthetic_acceptance_length"]) - 1, depth),), depth
    )


def _chance(accepted: float, depth: int) -> float:
    """Solve r + r^2 + ... + r^depth = accepted for r by halving."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        total = sum(middle**position for position in range(1, depth + 1))
        low, high = (middle, high) if total < accepted else (low, middle)
    return (low + high) / 2
