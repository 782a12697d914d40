"""Which drafts the simulated target accepts: a seeded chain over positions. Pure."""

from __future__ import annotations

import hashlib

import attrs

CODE_BONUS = 0.12
"""Code is more predictable than prose."""


@attrs.frozen(kw_only=True)
class Drafting:
    """How one method drafts on the simulated server."""

    method: str
    depth: int
    """Tokens of a draft; 0 without speculation."""
    first: float = 0.0
    """Probability that position 0 is accepted, for prose."""
    decay: float = 1.0
    """Factor from each position to the next, given that all before were accepted."""
    match: float = 1.0
    """Probability that a step drafts at all."""
    relative_cost: float = 0.0
    """Cost of drafting one position as a share of a plain step."""


CHAINS: dict[str, Drafting] = {
    "draft_model": Drafting(
        method="draft_model", depth=0, first=0.78, decay=0.92, relative_cost=0.14
    ),
    "ngram": Drafting(
        method="ngram", depth=0, first=0.62, decay=0.95, match=0.35, relative_cost=0.01
    ),
    "eagle": Drafting(method="eagle", depth=0, first=0.74, decay=0.88, relative_cost=0.05),
    "eagle3": Drafting(method="eagle3", depth=0, first=0.80, decay=0.93, relative_cost=0.05),
}
"""Invented but plausible chains. A method that is not here drafts as a draft model does."""


def drafting(method: str, depth: int) -> Drafting:
    """Give how a method drafts at a depth."""
    return attrs.evolve(CHAINS.get(method, CHAINS["draft_model"]), method=method, depth=depth)


def uniform(*parts: object) -> float:
    """Give a number in [0, 1) that depends on nothing but the parts."""
    text = "\x1f".join(map(str, parts))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest()) / 2**56


def drafted_and_accepted(
    drafting: Drafting, *, seed: int, prompt: str, position: int, is_code: bool
) -> tuple[int, int]:
    """Give draft length and accepted tokens of the step that starts at an output position."""
    if not drafting.depth or uniform(seed, "match", prompt, position) >= drafting.match:
        return 0, 0
    accepted = 0
    chance = min(drafting.first + CODE_BONUS * is_code, 1.0)
    while accepted < drafting.depth:
        if uniform(seed, "accept", prompt, position, accepted) >= chance:
            break
        accepted += 1
        chance *= drafting.decay
    return drafting.depth, accepted
