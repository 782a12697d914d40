from __future__ import annotations

import time
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.judge.text_distance import common_prefix, edit_distance

TEXTS = st.text("abé\n", max_size=40)


def table_distance(one: str, other: str) -> int:
    """The textbook's table, row by row."""
    row = list(range(len(other) + 1))
    for place, character in enumerate(one, 1):
        upper, row = row, [place]
        for column, against in enumerate(other, 1):
            row.append(
                min(upper[column] + 1, row[-1] + 1, upper[column - 1] + (character != against))
            )
    return row[-1]


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [
        ("kitten", "sitting", 3),
        ("", "abc", 3),
        ("abc", "abc", 0),
        ("abcdef", "abXdef", 1),
        ("flaw", "lawn", 2),
        ("ab", "ba", 2),
    ],
)
def test_known_distances(one: str, other: str, distance: int) -> None:
    assert edit_distance(one, other) == distance


@given(TEXTS, TEXTS)
def test_the_distance_is_that_of_the_table_whichever_comes_first(one: str, other: str) -> None:
    assert edit_distance(one, other) == edit_distance(other, one) == table_distance(one, other)


@given(TEXTS, TEXTS, TEXTS)
def test_a_way_round_is_no_shorter(one: str, other: str, third: str) -> None:
    assert edit_distance(one, third) <= edit_distance(one, other) + edit_distance(other, third)


@given(TEXTS, TEXTS)
def test_the_common_prefix_ends_where_the_texts_part(one: str, other: str) -> None:
    place = common_prefix(one, other)
    assert one[:place] == other[:place]
    assert one[place : place + 1] != other[place : place + 1] or one == other


def test_fifty_long_pairs_take_a_fraction_of_a_second() -> None:
    draw = Random(1)
    texts = ["".join(draw.choices("abcdefgh ", k=1000)) for _ in range(51)]
    started = time.process_time()
    for one, other in pairwise(texts):
        edit_distance(one, other)
    # About 0.1 s on a quiet core; the table takes 30 s.
    assert time.process_time() - started < 2
