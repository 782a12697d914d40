"""Which prompts a training set has seen: the same text, or a long run of the same words."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from specbench.errors import ExperimentError, Problem
from specbench.experiment.prompt import Prompt
from specbench.workloads.prompt_tokens import first_text

PIECE_WORDS = 13
"""Words of a piece. Every run of 25 equal words holds a whole piece of the prompt."""
_WORD = re.compile(r"\w+")


@attrs.frozen(kw_only=True)
class Overlap:
    """Prompts that stand in a training set too."""

    same: tuple[str, ...]
    """Ids of prompts whose user's words are a text of it, but for case and punctuation."""
    shared: tuple[str, ...]
    """Ids of other prompts of which a piece of 13 words stands in it."""


def overlap(prompts: Sequence[Prompt], training: Path) -> Overlap:
    """Compare prompts with a training set: JSON Lines, JSON, or lines of text.

    Raises:
        ExperimentError: The file cannot be read.
    """
    whole: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    pieces: defaultdict[int, set[str]] = defaultdict(set)
    for prompt in prompts:
        said = [m.content for m in prompt.opening() if m.role == "user"]
        for text in (*said, first_text(prompt)):
            whole[tuple(_words(text))].add(prompt.id)
        own = _words(first_text(prompt))
        for start in range(0, len(own) - PIECE_WORDS + 1, PIECE_WORDS):
            pieces[hash(tuple(own[start : start + PIECE_WORDS]))].add(prompt.id)
    same: set[str] = set()
    shared: set[str] = set()
    for text in _texts(training):
        found = _words(text)
        same |= whole.get(tuple(found), set())
        for start in range(len(found) - PIECE_WORDS + 1):
            shared |= pieces.get(hash(tuple(found[start : start + PIECE_WORDS])), set())
    order = [prompt.id for prompt in prompts]
    return Overlap(
        same=tuple(name for name in order if name in same),
        shared=tuple(name for name in order if name in shared - same),
    )


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _texts(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            if file.read(1) == "[":
                file.seek(0)
                yield from _strings(json.load(file))
                return
            file.seek(0)
            for line in file:
                try:
                    yield from _strings(json.loads(line))
                except json.JSONDecodeError:
                    yield line
    except (OSError, json.JSONDecodeError) as error:
        raise ExperimentError(
            [Problem(f"the training set cannot be read: {error}", "", str(path))]
        ) from None


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
