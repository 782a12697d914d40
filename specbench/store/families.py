"""Arms of one family: the same method and options, but for the draft length."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DRAFT_LENGTH = "num_speculative_tokens"
"""The option that sweeps k, by vLLM's name."""


def families(arms: Mapping[str, Any]) -> Mapping[str, str]:
    """Give the family of every planned arm: its method and what tells it from others of that.

    `ngram` where all n-gram arms differ in k alone, `ngram, prompt_lookup_max 4` where they also
    differ in how far they look.
    """
    options = {
        name: {key: value for key, value in arm["arm"]["options"].items() if key != DRAFT_LENGTH}
        for name, arm in arms.items()
    }
    found = {}
    for name, arm in arms.items():
        method = arm["arm"]["method"]
        others = [options[n] for n, other in arms.items() if other["arm"]["method"] == method]
        told = [
            f"{key} {value}"
            for key, value in sorted(options[name].items())
            if any(other.get(key) != value for other in others)
        ]
        found[name] = ", ".join([method, *told])
    return found
