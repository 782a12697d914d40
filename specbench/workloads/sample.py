"""A seeded sample of each stratum: the same rows on every machine and Python, in their order."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from specbench.experiment.prompt import Prompt


def stratified(prompts: Sequence[Prompt], count: int, seed: int) -> tuple[Prompt, ...]:
    """Give `count` prompts of each stratum, or all of one that has fewer.

    A prompt is chosen by the digest of seed and id, so that others which come or go around it
    change little.
    """
    ranks: defaultdict[str, list[tuple[bytes, str]]] = defaultdict(list)
    for prompt in prompts:
        rank = hashlib.sha256(f"{seed}/{prompt.id}".encode()).digest()
        ranks[prompt.stratum].append((rank, prompt.id))
    chosen = {name for found in ranks.values() for _, name in sorted(found)[:count]}
    return tuple(prompt for prompt in prompts if prompt.id in chosen)
