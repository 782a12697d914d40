"""What the simulated target says: deterministic words, the same whatever the method. Pure."""

from __future__ import annotations

import re

from specbench.engines.simulated.speculation import uniform

_VOCABULARY = (
    "a all an and are as at be before but by can cell each end every first for from gain given "
    "half has in is it its large less light line load long made may mean more most new no not of "
    "on one open or order other out over part plain read run same seen set small so step such "
    "than that the then there they this time to token true two under up use was way we when "
    "which while will with work you value result number point rate side text word list"
)
WORDS = _VOCABULARY.split()

_CODE = re.compile(r"```|\bdef \w+\(|\bclass \w+|\bimport \w+|\breturn\b")
_TOKEN = re.compile(r"\w+|[^\w\s]")


def count_tokens(text: str) -> int:
    """Give the tokens of a prompt: words and marks."""
    return len(_TOKEN.findall(text))


def is_code(text: str) -> bool:
    """Tell whether a prompt asks about code."""
    return bool(_CODE.search(text))


def token_id(seed: int, prompt: str, position: int) -> int:
    """Give the token at an output position."""
    return int(uniform(seed, "token", prompt, position) * len(WORDS))


def token_text(token: int, position: int) -> str:
    """Give a token as text."""
    return WORDS[token] if position == 0 else f" {WORDS[token]}"


def natural_length(seed: int, prompt: str, cap: int) -> tuple[int, str]:
    """Give length and finish reason of the natural answer: about a third reach the cap."""
    length = round(cap * (0.55 + 0.7 * uniform(seed, "length", prompt)))
    return (cap, "length") if length >= cap else (max(length, 1), "stop")
