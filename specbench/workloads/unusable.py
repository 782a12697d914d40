"""Files that look like prompts and are none, and why. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

LENGTH_COLUMNS = (
    {"input_length", "output_length"},
    {"ContextTokens", "GeneratedTokens"},
    {"Request tokens", "Response tokens"},
    {"prompt_tokens", "output_tokens"},
)
"""Mooncake and vLLM's timed traces; Azure's; BurstGPT's; a generator's."""
TEXT_COLUMNS = {"prompt", "text", "text_input", "input_text", "messages", "turns", "conversations"}
LEAST_ALIKE = 5
"""Prompts that must be the same before a file counts as one of placeholders."""
LONGEST_PLACEHOLDER = 300
"""Characters; a longer text that speaks of fetching is one."""
_PLACEHOLDER = re.compile(
    r"(?:should|must) be (?:fetched|downloaded|obtained) from"
    r"|^\W*(?:placeholder|redacted|todo|tbd)\W*$"
    r"|^\W*\{\{.*\}\}\W*$|^\W*<placeholder>",
    re.IGNORECASE,
)


def length_only(value: Mapping[str, Any]) -> str:
    """Give why a row with lengths and no text cannot be used; nothing when it has text."""
    names = value.keys()
    if TEXT_COLUMNS & names or not any(wanted <= names for wanted in LENGTH_COLUMNS):
        return ""
    return (
        "this is a trace of lengths without any text: prompts made of random tokens give no valid "
        "acceptance"
    )


def placeholder(text: str) -> str:
    """Give why a text that only stands for another cannot be used; nothing when it can."""
    if len(text) > LONGEST_PLACEHOLDER or not _PLACEHOLDER.search(text):
        return ""
    return (
        f"{text.strip()[:80]!r} is a placeholder, not the prompt: prepare the full copy of the "
        "data set that its owner gives you"
    )


def all_alike(texts: Iterable[str]) -> str:
    """Give why a file whose prompts are mostly one text cannot be used; nothing when it can."""
    counts = Counter(texts)
    ((text, most),) = counts.most_common(1) or [("", 0)]
    if most < LEAST_ALIKE or most <= counts.total() / 2:
        return ""
    return f"{most} of {counts.total()} prompts are the same text, {text.strip()[:80]!r}"
