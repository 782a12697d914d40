"""What the simulated target says: the greedy answer to a prompt, the same whatever drafts. Pure.

An answer is made token by token: it begins to repeat an earlier span (of the prompt, or of itself),
goes on with the span that it repeats, or says a new word. How often it does which depends on the
genre, so that prompt lookup finds as much in a text as the text holds.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import exp, log
from random import Random
from typing import Literal

import attrs

Genre = Literal["chat", "code", "summary"]

_TOKEN = re.compile(r"\s*(?:\w{1,8}|[^\w\s])|\s+$")
_CODE = re.compile(r"```|\bdef \w+\(|\bclass \w+|\bimport \w+|\breturn\b")
_SUMMARY = re.compile(r"\bsummar(?:y|ies|ise|ize)", re.IGNORECASE)
_PROSE_WORDS = (
    "a all an and are as at be before but by can cell each end every first for from gain given "
    "half has in is it its large less light line load long made may mean more most new no not of "
    "on one open or order other out over part plain read run same seen set small so step such "
    "than that the then there they this time to token true two under up use was way we when "
    "which while will with work you value result number point rate side text word list"
)
PROSE = _PROSE_WORDS.split()
_SOURCE_WORDS = (
    "self . ( ) [ ] { } : , = + - _ if for in def class return None True False not and or is with "
    "raise import from try except len range str int list dict key value name item index result "
    "data path line text count size start end new old left right node next"
)
SOURCE = _SOURCE_WORDS.split()

VOCABULARY_SIZE = 100_000
NEAR_TIE_NATS = 0.5
MARGIN_MEAN_NATS = 6.0
"""Mean lead of the best candidate over the second, in nats; exponentially distributed, so that
about one new word in twelve is a near tie."""


@attrs.frozen(kw_only=True)
class Habits:
    """How a genre repeats itself."""

    reuse: float
    """Chance that a token which is not part of a repetition begins one."""
    stay: float
    """Chance that a repetition goes on by one more token."""
    own: float
    """Share of repetitions that repeat the answer's own recent words instead of the prompt."""
    words: Sequence[str]


OWN_WINDOW = 48
"""Tokens back in which an answer repeats itself."""


@attrs.frozen(kw_only=True)
class Deviation:
    """How one deployment's answers leave the greedy text."""

    noise_nats: float = 0.0
    """Size of the numerical noise: near ties of about this lead may flip."""
    swaps: float = 0.0
    """Chance of a token that the target would never have chosen: a lossy verifier."""
    seed: str = ""
    """What differs between deployments, batches or sampled answers."""


class Text:
    """The answer to a tokenized prompt, written as far as it is read.

    The greedy answer depends on nothing but `key`. After a flip or a swap the rest is another text.
    """

    def __init__(
        self, prompt: Sequence[str], *, habits: Habits, key: str, deviation: Deviation
    ) -> None:
        self.tokens: list[str] = []
        self._margins_nats: list[float] = []
        self._deviations: dict[int, tuple[str, int]] = {}
        self._history = list(prompt)
        self._prompted = len(prompt)
        self._habits = habits
        self._key = key
        self._deviation = deviation
        self._exact = not (deviation.noise_nats or deviation.swaps)
        self._draw = Random(f"{key}/text").random  # noqa: S311 - reproducible, not secret
        self._chance = Random(f"{key}/deviation/{deviation.seed}")  # noqa: S311
        self._source: int | None = None
        """Where in the history the repetition under way goes on."""

    def between(self, first: int, end: int) -> list[str]:
        """Give tokens of the answer."""
        while len(self.tokens) < end:
            self._write()
        return self.tokens[first:end]

    def candidates(self, place: int) -> tuple[tuple[str, float], ...]:
        """Give the five likeliest tokens of a place with their log-probabilities."""
        (chosen,) = self.between(place, place + 1)
        best, _ = self._deviations.get(place, (chosen, 0))
        logprobs = candidate_logprobs(self._margins_nats[place])
        return tuple(zip(candidates(best), logprobs, strict=True))

    def rank(self, place: int) -> int:
        """Tell which candidate was chosen: 1 after a flipped near tie, 4 after a swap."""
        return self._deviations.get(place, ("", 0))[1]

    def _write(self) -> None:
        """Write one more token."""
        draw, habits, history, place = self._draw, self._habits, self._history, len(self.tokens)
        margin_nats = -MARGIN_MEAN_NATS * log(1 - draw())
        source = self._source
        if source is not None and draw() >= habits.stay:
            source = None
        if source is None and history and draw() < habits.reuse:
            source = _span(draw, self._prompted, place, habits.own)
        if source is not None:
            # A model that repeats a span is sure of it.
            margin_nats += NEAR_TIE_NATS
            token = history[source]
            source += 1
        else:
            token = f" {habits.words[int(draw() * len(habits.words))]}"
        rank = 0 if self._exact else _rank(self._chance, margin_nats, self._deviation)
        if rank:
            self._deviations[place] = (token, rank)
            token = candidates(token)[rank]
            self._draw = Random(f"{self._key}/text/{place}/{token}").random  # noqa: S311
            source = None
        self._source = source
        self._margins_nats.append(margin_nats)
        self.tokens.append(token)
        history.append(token)


def tokenize(text: str) -> tuple[str, ...]:
    """Give the tokens of a text: words of at most eight letters and marks, with the space before.

    Their concatenation is the text.
    """
    return tuple(_TOKEN.findall(text))


@lru_cache(maxsize=VOCABULARY_SIZE)
def token_id(token: str) -> int:
    """Give a token's number, the same in every process."""
    return zlib.crc32(token.encode()) % VOCABULARY_SIZE


def genre(prompt: str) -> Genre:
    """Tell what a prompt asks for, by its words: a server sees no stratum."""
    if _SUMMARY.search(prompt):
        return "summary"
    return "code" if _CODE.search(prompt) else "chat"


def natural_length(key: str, cap: int) -> tuple[int, str]:
    """Give length and finish reason of the natural answer: about a third reach the cap."""
    length = round(cap * (0.55 + 0.7 * Random(f"{key}/length").random()))  # noqa: S311
    return (cap, "length") if length >= cap else (max(length, 1), "stop")


def candidates(best: str) -> tuple[str, ...]:
    """Give the five likeliest tokens where `best` is the likeliest."""
    place = zlib.crc32(best.encode())
    others = (f" {PROSE[(place + step * 17) % len(PROSE)]}" for step in range(12))
    distinct = dict.fromkeys((best, *others))
    return tuple(distinct)[:5]


def candidate_logprobs(margin_nats: float) -> tuple[float, ...]:
    """Give the log-probabilities of the five candidates, where the best leads by `margin_nats`."""
    behind = (0.0, margin_nats, margin_nats + 1.0, margin_nats + 1.7, margin_nats + 2.3)
    # The tail of the vocabulary has half as much as the fifth candidate.
    total = log(sum(exp(-gap) for gap in behind) + exp(-behind[-1]) / 2)
    return tuple(-gap - total for gap in behind)


def _span(draw: Callable[[], float], prompt: int, answered: int, own: float) -> int:
    """Give where a repetition begins: in the answer's own last words, or in the prompt."""
    if answered and (draw() < own or not prompt):
        nearest = min(answered, OWN_WINDOW)
        return prompt + answered - nearest + int(draw() * nearest)
    return int(draw() * prompt)


def _rank(chance: Random, margin_nats: float, deviation: Deviation) -> int:
    if deviation.swaps and chance.random() < deviation.swaps:
        return 4
    if deviation.noise_nats and margin_nats < abs(chance.gauss(0, deviation.noise_nats)):
        return 1
    return 0
