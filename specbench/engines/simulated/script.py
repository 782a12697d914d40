"""The whole truth about one request before it runs: its answer, and what would be drafted. Pure.

Known beforehand, so that a step of the scheduler only counts, however many requests it holds.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from specbench.engines.simulated import text
from specbench.engines.simulated.drafting import Drafting, Offers, offers
from specbench.engines.simulated.text import Deviation, Genre, Habits, Text

BLOCK_TOKENS = 16
"""Tokens of a KV block, as vLLM's default."""


@attrs.frozen(kw_only=True, eq=False)
class Script:
    """One prompt's answer under one way of drafting."""

    prompt: tuple[str, ...]
    """Its tokens."""
    answer: Text
    length: int
    """Tokens of the answer."""
    finish_reason: str
    offers: Offers

    @property
    def prompt_tokens(self) -> int:
        """Give how many tokens the prompt has."""
        return len(self.prompt)


def script(
    prompt: str,
    *,
    cap: int,
    seed: int,
    habits: Mapping[Genre, Habits],
    drafting: Drafting,
    deviation: Deviation,
    ignore_eos: bool = False,
    sampled: str = "",
) -> Script:
    """Write the script of a request.

    Args:
        prompt: All messages as one text.
        cap: Most tokens of the answer.
        seed: The target: another seed is another model.
        habits: How each genre repeats itself.
        drafting: How the arm drafts.
        deviation: How this deployment leaves the greedy text.
        ignore_eos: Answer up to the cap.
        sampled: What makes this sample differ from others; empty for greedy.
    """
    tokens = text.tokenize(prompt)
    genre = text.genre(prompt)
    key = f"{seed}/{sampled}/{prompt}"
    length, reason = (cap, "length") if ignore_eos else text.natural_length(key, cap)
    answer = Text(tokens, habits=habits[genre], key=key, deviation=deviation)
    return Script(
        prompt=tokens,
        answer=answer,
        length=length,
        finish_reason=reason,
        offers=offers(drafting, prompt=tokens, answer=answer, length=length, genre=genre, key=key),
    )


def blocks(tokens: tuple[str, ...], salt: str) -> tuple[int, ...]:
    """Give a number for each whole block of a prompt, on which all before it and the salt weigh."""
    chain, numbers = hash(salt), []
    for start in range(0, len(tokens) - BLOCK_TOKENS + 1, BLOCK_TOKENS):
        chain = hash((chain, tokens[start : start + BLOCK_TOKENS]))
        numbers.append(chain)
    return tuple(numbers)
