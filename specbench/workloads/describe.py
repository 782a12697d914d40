"""What a workload is: lengths by stratum, duplicates, and how far prompts share their beginnings.

Pure: token ids come from outside.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence

import attrs
import numpy as np

from specbench.experiment.prompt import Prompt
from specbench.workloads.prompt_tokens import Encode, first_text, words

BLOCK_TOKENS = 16
"""Tokens of a prefix-cache block, vLLM's default (vllm/config/cache.py, 0.11 to 0.33)."""


@attrs.frozen(kw_only=True)
class Lengths:
    """Order statistics of whole numbers; percentiles interpolate linearly."""

    least: int
    median: float
    p95: float
    most: int

    @staticmethod
    def of(values: Sequence[int]) -> Lengths:
        """Give those of some values, at least one."""
        median, p95 = np.quantile(values, (0.5, 0.95))
        return Lengths(least=min(values), median=float(median), p95=float(p95), most=max(values))


@attrs.frozen(kw_only=True)
class StratumDescription:
    """One stratum of a workload."""

    stratum: str
    prompts: int
    turns: int
    """Requests of one pass: a conversation has one a turn."""
    lengths: Lengths
    """Of the first request of each prompt."""
    max_tokens: Lengths
    reuse_cell: float | None
    """Expected prefix hits / prompt tokens in a pass whose prompts warm only each other (policy
    `cell`); None without tokens."""
    reuse_warm: float | None
    """The same when every prompt was sent before (policy `warm`)."""


@attrs.frozen(kw_only=True)
class Description:
    """A whole workload."""

    unit: str
    """What lengths count: tokens or words."""
    strata: tuple[StratumDescription, ...]
    duplicates: tuple[tuple[str, ...], ...]
    """Ids of prompts that say the same, but for case and white space."""
    licences: tuple[str, ...]


def describe(prompts: Sequence[Prompt], encode: Encode | None) -> Description:
    """Describe prompts, in tokens where there is an encoder, else in words."""
    lengths: defaultdict[str, list[int]] = defaultdict(list)
    blocks: defaultdict[str, list[bytes]] = defaultdict(list)
    if encode is None:
        for prompt in prompts:
            lengths[prompt.stratum].append(words(prompt))
    else:
        for prompt, ids in zip(prompts, encode(prompts), strict=True):
            lengths[prompt.stratum].append(len(ids))
            blocks[prompt.stratum].append(ids.tobytes())
    by_stratum: defaultdict[str, list[Prompt]] = defaultdict(list)
    for prompt in prompts:
        by_stratum[prompt.stratum].append(prompt)
    strata = []
    for name, members in by_stratum.items():
        own = lengths[name]
        reused = reused_tokens(blocks[name]) if encode else None
        total = sum(own)
        strata.append(
            StratumDescription(
                stratum=name,
                prompts=len(members),
                turns=sum(len(prompt.turns) or 1 for prompt in members),
                lengths=Lengths.of(own),
                max_tokens=Lengths.of([prompt.max_tokens for prompt in members]),
                reuse_cell=reused / total if reused is not None and total else None,
                reuse_warm=sum(map(_reusable, own)) / total if encode and total else None,
            )
        )
    return Description(
        unit="tokens" if encode else "words",
        strata=tuple(strata),
        duplicates=duplicates(prompts),
        licences=tuple(sorted({prompt.licence for prompt in prompts})),
    )


def duplicates(prompts: Iterable[Prompt]) -> tuple[tuple[str, ...], ...]:
    """Give the ids of prompts that say the same, but for case and white space."""
    found: defaultdict[bytes, list[str]] = defaultdict(list)
    for prompt in prompts:
        parts = [first_text(prompt), *(turn.user for turn in prompt.turns[1:])]
        text = " ".join("\n".join(parts).casefold().split())
        found[hashlib.blake2b(text.encode(), digest_size=16).digest()].append(prompt.id)
    return tuple(tuple(ids) for ids in found.values() if len(ids) > 1)


def reused_tokens(prompts: Sequence[bytes]) -> int:
    """Give the tokens of whole blocks that another prompt began with, each new block counted once.

    Prompts are token ids of an `array("I")`. A cache of any size that meets them in any order hits
    as many: all blocks less the distinct beginnings. Sorted neighbours share the longest ones.
    """
    size = array("I").itemsize
    width = BLOCK_TOKENS * size
    reused = 0
    before = b""
    for prompt in sorted(prompts):
        limit = _reusable(len(prompt) // size) * size
        at = 0
        while at < limit and before[at : at + width] == prompt[at : at + width]:
            at += width
        reused += at // size
        before = prompt
    return reused


def _reusable(tokens: int) -> int:
    """Give the tokens of a prompt that a full cache can hold: the last one is always computed."""
    return max(tokens - 1, 0) // BLOCK_TOKENS * BLOCK_TOKENS
