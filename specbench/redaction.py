"""Secrets out of everything that is kept. Pure.

A secret is known by the name it stands under (`HF_TOKEN`, `--api-key`). Its name hides it where it
is stated; its value hides it wherever a server or a log repeats it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

HIDDEN = "***"
SHORTEST = 6
"""Characters from which a value is hidden wherever it appears; shorter ones are words, too."""

_NAME = re.compile(r"(?:^|[_-])(?:token|key|secret|password|credentials?)$", re.IGNORECASE)


def is_secret(name: object) -> bool:
    """Tell whether a name, such as that of a variable or a flag, names a secret."""
    return bool(_NAME.search(str(name)))


def scrubbed(value: Any) -> Any:
    """Give a copy in which the value of every key and flag that names a secret is hidden."""
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if is_secret(key) and isinstance(item, str) else scrubbed(item)
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [
            HIDDEN if _is_flag(flag) else scrubbed(item)
            for flag, item in zip([None, *value], value, strict=False)
        ]
    return value


@attrs.frozen
class Redaction:
    """The secret values of a run."""

    values: frozenset[str] = frozenset()

    def text(self, text: str) -> str:
        """Give a text without them."""
        for value in sorted(self.values, key=len, reverse=True):
            text = text.replace(value, HIDDEN)
        return text


def redaction(
    environments: Iterable[Mapping[str, str]],
    commands: Iterable[Iterable[str]],
    more: Iterable[str] = (),
) -> Redaction:
    """Give the values that environments and command lines state under a secret's name.

    `more` are values that are known to be secret.
    """
    found = {
        value
        for environment in environments
        for name, value in environment.items()
        if is_secret(name)
    }
    found |= {value for command in commands for value in _flagged(tuple(command))}
    found |= set(more)
    return Redaction(frozenset(value for value in found if len(value) >= SHORTEST))


def _flagged(argv: tuple[str, ...]) -> Iterator[str]:
    for flag, value in itertools.pairwise(argv):
        if _is_flag(flag):
            yield value


def _is_flag(text: object) -> bool:
    return isinstance(text, str) and text.startswith("--") and is_secret(text)
