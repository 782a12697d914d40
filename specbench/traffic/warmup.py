"""Warm-up: waves of requests of the cell's shape until two of them agree, or a recorded bound."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import attrs

from specbench.facts import RequestRow, Window
from specbench.units import seconds

AGREEMENT = 0.10
MOST_WAVES = 4


@attrs.frozen(kw_only=True)
class WarmUp:
    """What the warm-up of a cell did."""

    wave_tokens_per_s: tuple[float, ...]
    agreed: bool
    """Whether the last two waves differ by less than 10%."""


async def warm(wave: Callable[[int], Awaitable[Window]]) -> WarmUp:
    """Drive waves until two agree, four at most. `wave(n)` drives the n-th."""
    rates: list[float] = []
    while len(rates) < MOST_WAVES and not agree(rates):
        rates.append(_rate((await wave(len(rates))).rows))
    return WarmUp(wave_tokens_per_s=tuple(rates), agreed=agree(rates))


def agree(rates: Sequence[float]) -> bool:
    """Tell whether the last two rates differ by less than 10% of the larger."""
    if len(rates) < 2:  # noqa: PLR2004 - two are compared
        return False
    low, high = sorted(rates[-2:])
    return high > 0 and (high - low) / high < AGREEMENT


def _rate(rows: Sequence[RequestRow]) -> float:
    span_s = seconds(max(row.ended_ns for row in rows) - min(row.sent_ns for row in rows))
    return sum(row.completion_tokens or 0 for row in rows) / span_s if span_s else 0.0
