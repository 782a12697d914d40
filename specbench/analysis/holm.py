"""Holm's step-down adjustment of p-values (Holm 1979). Pure."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Give adjusted p-values in the same order: at most 0.05 where Holm at 5% rejects.

    A comparison without a p-value stays without one, and still counts: it was planned, and what a
    failed deployment took away must not make the others easier.
    """
    count = len(p_values)
    adjusted: list[float | None] = [None] * count
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    highest = 0.0
    for rank, (p, place) in enumerate(known):
        highest = max(highest, min(1.0, (count - rank) * p))
        adjusted[place] = highest
    return tuple(adjusted)
