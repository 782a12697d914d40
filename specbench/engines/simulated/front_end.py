"""The API process before the engine: it tokenizes what waits, one batch after another. Pure.

On the captured H200 the first tokens of 32 requests sent at once came together, 165 ms later, also
where every prompt was cached: the process hands over what it took up when it is done with all of
it, and what arrives meanwhile waits for the next batch.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import attrs

ItemT = TypeVar("ItemT")


@attrs.frozen(kw_only=True, eq=False)
class FrontEnd(Generic[ItemT]):
    """A queue served in batches. Every item is a request with what it costs."""

    batch: tuple[ItemT, ...] = ()
    """Being worked on."""
    ready_s: float = 0.0
    """When the batch is done; instants are on the clock of whoever plays it."""
    queue: tuple[tuple[ItemT, float], ...] = ()
    """What waits for the next batch, with its cost in seconds."""

    def arrived(self, item: ItemT, *, cost_s: float, now_s: float) -> FrontEnd[ItemT]:
        """Give the front end with one more request."""
        if self.batch:
            return attrs.evolve(self, queue=(*self.queue, (item, cost_s)))
        return attrs.evolve(self, batch=(item,), ready_s=now_s + cost_s)

    def passed(self, now_s: float) -> tuple[FrontEnd[ItemT], tuple[ItemT, ...]]:
        """Give the front end as it is by `now_s`, and what went on to the engine."""
        passed: tuple[ItemT, ...] = ()
        front = self
        while front.batch and front.ready_s <= now_s:
            passed += front.batch
            front = FrontEnd(
                batch=tuple(item for item, _ in front.queue),
                ready_s=front.ready_s + sum(cost_s for _, cost_s in front.queue),
            )
        return front, passed
