"""Plain documents to texts of a wanted length: long ones are cut, short ones are joined. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CHARACTERS_PER_TOKEN = 4
"""Of English prose, roughly: an estimate where no tokenizer is named, and told as one."""
_PLACES = (re.compile(r"\n\s*\n"), re.compile(r"[.!?][\"')\]]?\s"), re.compile(r"\s"))
"""Where a text is cut, the best first: after a paragraph, a sentence, a word."""


@attrs.frozen(kw_only=True)
class Measure:
    """How long texts are."""

    tokens: Callable[[str], int]
    beginning: Callable[[str, int], str]
    """Gives as much of a text as makes so many tokens."""


ESTIMATE = Measure(
    tokens=lambda text: len(text) // CHARACTERS_PER_TOKEN,
    beginning=lambda text, most: text[: most * CHARACTERS_PER_TOKEN],
)


def measure(tokenizer: Tokenizer) -> Measure:
    """Give the measure of a tokenizer."""

    def beginning(text: str, most: int) -> str:
        offsets = tokenizer.encode(text, add_special_tokens=False).offsets
        return text if len(offsets) <= most else text[: offsets[most - 1][1]]

    return Measure(
        tokens=lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids),
        beginning=beginning,
    )


@attrs.frozen(kw_only=True)
class Collected:
    """Documents that together make one text."""

    ids: tuple[str, ...]
    text: str
    tokens: int
    cut: bool
    """Its end was left out."""


def collected(
    documents: Iterable[tuple[str, str]], least: int, most: int, size: Measure
) -> Iterator[Collected]:
    """Give texts of `least` to `most` tokens from named documents, in their order.

    Documents that are too short are joined with those that follow. The last text may stay under
    `least`, when no document follows.
    """
    ids: list[str] = []
    parts: list[str] = []
    for name, text in documents:
        ids.append(name)
        parts.append(text.strip())
        joined = "\n\n".join(parts)
        tokens = size.tokens(joined)
        if tokens < least:
            continue
        yield _text(ids, joined, tokens, most, size)
        ids, parts = [], []
    if parts:
        joined = "\n\n".join(parts)
        yield _text(ids, joined, size.tokens(joined), most, size)


def _text(ids: list[str], joined: str, tokens: int, most: int, size: Measure) -> Collected:
    if tokens <= most:
        return Collected(ids=tuple(ids), text=joined, tokens=tokens, cut=False)
    text = _whole(size.beginning(joined, most))
    return Collected(ids=tuple(ids), text=text, tokens=size.tokens(text), cut=True)


def _whole(text: str) -> str:
    """Cut a text back to the end of a paragraph, a sentence or a word near its end."""
    for place in _PLACES:
        ends = [match.end() for match in place.finditer(text, len(text) * 9 // 10)]
        if ends:
            return text[: ends[-1]].rstrip()
    return text
