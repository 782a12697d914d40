"""What a method drafts at each place of an answer, and how much of it the target accepts. Pure.

A draft model and a head accept by a chain: position i is accepted with a chance that depends on the
genre and on i, given that all before it were. Prompt lookup proposes what really followed the same
words earlier, and is right where the answer really goes on like that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import attrs
import numpy as np

from specbench.engines.simulated.speculative_config import method_of
from specbench.engines.simulated.text import Genre

LOOKUP_DEFAULT = 5
"""vLLM's n-gram when neither bound is given (vllm/config/speculative.py, 0.32)."""
SUFFIX_DEPTH = 24
"""vLLM's suffix_decoding_max_tree_depth."""
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


@attrs.frozen(kw_only=True)
class Offers:
    """A byte for each place of an answer."""

    drafted: bytes
    """Longest draft that there is for the tokens from here on."""
    accepted: bytes
    """How many tokens of that draft the target would accept."""


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
        shortest = speculation.get("prompt_lookup_min")
        longest = speculation.get("prompt_lookup_max")
        lookup = (
            int(shortest or longest or LOOKUP_DEFAULT),
            int(longest or shortest or LOOKUP_DEFAULT),
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
    drafting: Drafting, *, prompt: Sequence[str], answer: Sequence[str], genre: Genre, key: str
) -> Offers:
    """Give what is drafted, and accepted of it, at each place of an answer."""
    places, depth = len(answer), drafting.depth
    if drafting.lookup is not None and drafting.synthetic is None:
        return _looked_up(drafting, prompt, answer)
    draw = Random(f"{key}/accept/{drafting.method}").random  # noqa: S311 - reproducible, not secret
    survival = drafting.synthetic or _survival(drafting.chains.get(genre, ()), depth)
    chances = np.array([draw() for _ in range(places)]).reshape(-1, 1)
    accepted = (chances < np.array(survival)).sum(axis=1).astype(np.uint8).tobytes()
    return Offers(drafted=bytes([depth]) * places, accepted=accepted)


def _looked_up(drafting: Drafting, prompt: Sequence[str], answer: Sequence[str]) -> Offers:
    """Look the latest words up in all text before them: the longest n-gram, its first occurrence.

    As vLLM's n-gram proposer does (vllm/v1/spec_decode/ngram_proposer.py, 0.32). The suffix method
    drafts no more tokens than it matched, so that the draft's length varies.
    """
    assert drafting.lookup is not None
    shortest, longest = drafting.lookup
    text = (*prompt, *answer)
    seen: list[dict[tuple[str, ...], int]] = [{} for _ in range(longest + 1)]
    drafted, accepted = bytearray(), bytearray()
    indexed = 0
    for place in range(len(answer)):
        end = len(prompt) + place
        # An occurrence must end before the words that are looked up, or it would find itself.
        for stop in range(indexed + 1, end):
            for size in range(shortest, min(longest, stop) + 1):
                seen[size].setdefault(text[stop - size : stop], stop)
        indexed = max(indexed, end - 1)
        found, matched = _found(
            seen, text[:end] if end < longest else text[end - longest : end], shortest
        )
        length = 0
        if found is not None:
            length = min(drafting.depth, end - found)
            if drafting.method == "suffix":
                length = min(length, matched)
        right = 0
        while right < length and end + right < len(text):
            if text[found + right] != text[end + right]:  # type: ignore[operator]
                break
            right += 1
        drafted.append(length)
        accepted.append(right)
    return Offers(drafted=bytes(drafted), accepted=bytes(accepted))


def _found(
    seen: Sequence[Mapping[tuple[str, ...], int]], latest: Sequence[str], shortest: int
) -> tuple[int | None, int]:
    """Give where the longest matching n-gram first ended, and its size."""
    for size in range(len(latest), shortest - 1, -1):
        found = seen[size].get(tuple(latest[len(latest) - size :]))
        if found is not None:
            return found, size
    return None, 0


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
