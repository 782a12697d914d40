from __future__ import annotations

from typing import Literal

import pytest

from specbench.facts import JournalEntry
from specbench.pace import Pace, pace, parse_duration_s


def entry(
    at_s: float, phase: str, state: Literal["start", "end"], deployment: str = "d1", cell: str = ""
) -> JournalEntry:
    return JournalEntry(
        unix_s=0.0,
        monotonic_ns=int(at_s * 1e9),
        phase=phase,
        state=state,
        deployment=deployment,
        cell=cell,
    )


def test_a_pace_is_the_longest_of_each_kind_so_far() -> None:
    journal = [
        entry(0, "launch", "start"),
        entry(1, "launch", "end"),
        entry(1, "ready", "start"),
        entry(21, "ready", "end"),
        entry(21, "warm", "start", cell="c1"),
        entry(24, "warm", "end", cell="c1"),
        entry(24, "drive", "start", cell="c1"),
        entry(34, "drive", "end", cell="c1"),
        entry(34, "stop", "start"),
        entry(36, "stop", "end"),
        entry(40, "ready", "start", "d2"),
        entry(50, "ready", "end", "d2"),
        entry(50, "drive", "start", "d2", "c1"),
        entry(70, "drive", "end", "d2", "c1"),
    ]
    assert pace(journal) == Pace(serving_s=23.0, cells_s={"c1": 20.0})


def test_an_unknown_cell_is_taken_for_the_longest_known_one() -> None:
    known = Pace(serving_s=10, cells_s={"a": 5, "b": 20})
    assert known.cell_s("a") == pytest.approx(6)
    assert known.cell_s("new") == pytest.approx(24)
    assert known.deployment_s(["a", "b"]) == pytest.approx(12 + 6 + 24)


@pytest.mark.parametrize(
    ("left_s", "first", "worth"),
    [
        (43, False, True),  # 1.2 x (10 + 5 + 20) = 42
        (41, False, False),
        (41, True, True),
        (19, True, True),  # 1.2 x (10 + 5) = 18
        (17, True, False),
    ],
)
def test_a_deployment_that_does_not_fit_whole_is_started_only_as_the_first_of_a_walk(
    left_s: float, first: bool, worth: bool
) -> None:
    known = Pace(serving_s=10, cells_s={"a": 5, "b": 20})
    assert known.is_worth_a_launch(["a", "b"], left_s, first=first) is worth


def test_a_deployment_of_which_no_like_was_seen_is_started() -> None:
    assert Pace().is_worth_a_launch(["a"], 0.1, first=False)


def test_a_phase_that_never_ended_counts_for_nothing() -> None:
    assert pace([entry(0, "drive", "start", cell="c")]) == Pace()


@pytest.mark.parametrize(
    ("text", "expected"), [("90s", 90), ("9m", 540), ("1h30m", 5400), ("1.5m", 90)]
)
def test_durations_are_read(text: str, expected: float) -> None:
    assert parse_duration_s(text) == expected


@pytest.mark.parametrize("text", ["", "9", "m", "9 m", "9x", "-3m", "3m!"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        parse_duration_s(text)
