"""Orders of arms and of cells inside blocks, each from the design's seed. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def arm_order(size: int, kind: str, seed: int) -> Callable[[int], list[int]]:
    """Give the function from a block's number, from 1, to the order of its arms."""
    if kind == "random":
        return lambda block: _rng(seed, "order", block).sample(range(size), size)
    chance = _rng(seed, "order")
    rows = williams_square(size)
    chance.shuffle(rows)
    names = chance.sample(range(size), size)
    return lambda block: [names[item] for item in rows[(block - 1) % len(rows)]]


def shuffled_cells(cells: Sequence[Item], seed: int, block: int) -> tuple[Item, ...]:
    """Give the cells in the order of a block, the same for all of its arms."""
    return tuple(_rng(seed, "cells", block).sample(list(cells), len(cells)))


def williams_square(size: int) -> list[list[int]]:
    """Give rows in which every item follows every other equally often.

    `size` rows for an even size, twice as many for an odd one (Williams 1949).
    """
    first = [0] + [(n + 1) // 2 if n % 2 else size - n // 2 for n in range(1, size)]
    rows = [[(item + shift) % size for item in first] for shift in range(size)]
    return rows + [row[::-1] for row in rows] if size % 2 else rows


def _rng(*parts: object) -> random.Random:
    return random.Random("/".join(map(str, parts)))  # noqa: S311 - orders are no secret
