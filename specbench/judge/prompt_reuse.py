"""How much of an output was in its prompt: what prompt lookup can find. Pure."""

from __future__ import annotations

import re

LENGTH = 4
"""Words or signs of a run."""
_PIECES = re.compile(r"\w+|[^\w\s]")

Run = tuple[str, ...]


def runs_of(text: str) -> tuple[Run, ...]:
    """Give every run of four words or signs, in order."""
    pieces = _PIECES.findall(text)
    return tuple(tuple(pieces[at : at + LENGTH]) for at in range(len(pieces) - LENGTH + 1))


def prompt_reuse(prompt: frozenset[Run], output: str) -> float | None:
    """Give the share of an output's runs that are among those of its prompt.

    Words stand in for tokens, which a server tells of the output alone. None for an output of fewer
    than four words or signs.
    """
    found = runs_of(output)
    return sum(run in prompt for run in found) / len(found) if found else None
