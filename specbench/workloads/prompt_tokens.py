"""Lengths of prompts: in tokens of the target's own tokenizer, or in words where there is none."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from specbench.errors import ExperimentError, Problem
from specbench.experiment.prompt import Prompt

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Encode = Callable[[Sequence[Prompt]], Iterator["array[int]"]]
"""Gives the token ids of each prompt's first request, in the order of the prompts."""
BATCH = 64
"""Prompts encoded at once: enough for every core, little enough for memory."""


def first_text(prompt: Prompt) -> str:
    """Give what a prompt's first request says, without roles and chat template."""
    return "\n".join(message.content for message in prompt.opening())


def words(prompt: Prompt) -> int:
    """Give the words of a prompt's first request, cut at white space."""
    return len(first_text(prompt).split())


def tokenizer_file(place: Path) -> Path:
    """Give the `tokenizer.json` that a path names, itself or by its folder."""
    return place / "tokenizer.json" if place.is_dir() else place


def load_tokenizer(place: Path) -> Tokenizer:
    """Load a `tokenizer.json`, or that of a checkpoint's folder.

    Raises:
        ExperimentError: There is none, or the package that reads it is not installed.
    """
    path = tokenizer_file(place)
    try:
        from tokenizers import Tokenizer
    except ImportError:
        hint = "pip install 'specbench[tokens]', or leave --tokenizer out"
        raise ExperimentError([Problem("the package tokenizers is missing", hint)]) from None
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001 - the package raises nothing narrower
        hint = "name a tokenizer.json, or a folder that holds one"
        raise ExperimentError(
            [Problem(f"no tokenizer can be read: {error}", hint, str(path))]
        ) from None


def encoder(tokenizer: Tokenizer) -> Encode:
    """Give the encoding of prompts by a tokenizer: their contents, without a chat template."""

    def encode(prompts: Sequence[Prompt]) -> Iterator[array[int]]:
        rest = iter(prompts)
        while batch := list(islice(rest, BATCH)):
            texts = [first_text(prompt) for prompt in batch]
            # The fast kind leaves out offsets, which nobody reads.
            for found in tokenizer.encode_batch_fast(texts, add_special_tokens=False):
                yield array("I", found.ids)

    return encode
