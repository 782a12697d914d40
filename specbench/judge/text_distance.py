"""How far two texts are apart. Pure."""

from __future__ import annotations


def common_prefix(one: str, other: str) -> int:
    """Give the number of characters with which both texts begin."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def edit_distance(one: str, other: str) -> int:
    """Give the fewest insertions, deletions and replacements of a character that make them equal.

    Levenshtein's distance by Myers's bit-vectors (J. ACM 46(3), 1999), in integers as long as a
    text: a column of the usual table takes about a microsecond.
    """
    start = common_prefix(one, other)
    one, other = one[start:], other[start:]
    end = common_prefix(one[::-1], other[::-1])
    one, other = one[: len(one) - end], other[: len(other) - end]
    if not one or not other:
        return len(one) + len(other)
    places: dict[str, int] = {}
    for place, character in enumerate(one):
        places[character] = places.get(character, 0) | 1 << place
    # Bits tell where, down a column of the table, the distance grows or falls by one.
    whole, last = (1 << len(one)) - 1, 1 << len(one) - 1
    grows, falls, distance = whole, 0, len(one)
    for character in other:
        equal = places.get(character, 0)
        level = (((equal & grows) + grows) ^ grows) | equal
        across_grows = falls | ~(level | grows)
        across_falls = grows & level
        if across_grows & last:
            distance += 1
        elif across_falls & last:
            distance -= 1
        across_grows = across_grows << 1 | 1
        kept = equal | falls
        grows = (across_falls << 1 | ~(kept | across_grows)) & whole
        falls = across_grows & kept & whole
    return distance
