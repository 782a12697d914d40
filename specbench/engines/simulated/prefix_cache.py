"""Which prompt blocks the simulated server still holds. Pure: storing gives another cache."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping

import attrs

Blocks = tuple[int, ...]


@attrs.frozen(kw_only=True, eq=False)
class PrefixCache:
    """Prompts by their first block, the longest unused first.

    A block's number depends on every block before it, so two prompts that share a block share all
    before it: what is held of a prompt is always its beginning.
    """

    capacity: int
    """Blocks that may be held; 0 switches the cache off."""
    prompts: Mapping[int, tuple[Blocks, ...]] = attrs.field(factory=dict)
    held: int = 0

    def hit(self, blocks: Blocks) -> int:
        """Give how many blocks from the beginning are held."""
        known = self.prompts.get(blocks[0], ()) if blocks else ()
        return max((_shared(blocks, prompt) for prompt in known), default=0)

    def store(self, blocks: Blocks) -> PrefixCache:
        """Give the cache that also holds these blocks, without those unused for longest."""
        if not blocks or not self.capacity:
            return self
        prompts = dict(self.prompts)
        known = prompts.pop(blocks[0], ())
        held = self.held
        if self.hit(blocks) < len(blocks):
            kept = tuple(prompt for prompt in known if _shared(blocks, prompt) < len(prompt))
            held += len(blocks) - sum(len(prompt) for prompt in known if prompt not in kept)
            known = (*kept, blocks)
        prompts[blocks[0]] = known
        while held > self.capacity and prompts:
            oldest = next(iter(prompts))
            held -= sum(map(len, prompts.pop(oldest)))
        return attrs.evolve(self, prompts=prompts, held=held)


def _shared(some: Blocks, others: Blocks) -> int:
    """Give the length of the common beginning, by halving."""
    longest = min(len(some), len(others))
    return bisect_left(range(longest), True, key=lambda place: some[place] != others[place])
