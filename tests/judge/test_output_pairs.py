from __future__ import annotations

from typing import Any

import pytest

from specbench.capture_facts import Capture, CapturedOutput
from specbench.judge.output_pairs import Worst, compare, compare_outputs, worst


def output(text: str, *ids: int, prompt_id: str = "p", **more: Any) -> CapturedOutput:
    return CapturedOutput(
        prompt_id=prompt_id,
        text=text,
        token_ids=ids or None,
        completion_tokens=len(ids) or None,
        **more,
    )


FIVE = ((7, 0.0), (8, 0.25), (9, 0.5), (10, 1.0), (11, 2.0))
BASE = output("one two six", 1, 2, 7, candidates=(((1, 0.0),), ((2, 0.0),), FIVE))


def test_measures_are_those_worked_out_by_hand() -> None:
    # "one two " is common, 8 of the 9 characters of the shorter; "six" to "X": three edits of 11.
    found = compare_outputs(BASE, output("one two X", 1, 2, 8, 9))
    assert (found.prefix_characters, found.prefix_fraction) == (8, 8 / 9)
    assert found.edit_distance == 3 / 11
    assert found.tokens == 1
    assert not found.exact
    divergence = found.divergence
    assert divergence is not None
    assert (divergence.token, divergence.character) == (2, 8)
    assert (divergence.before, divergence.reference, divergence.other) == ("one two ", "six", "X")


@pytest.mark.parametrize(
    ("said", "behind", "beyond", "near"),
    [
        (8, 0.25, None, True),
        (9, 0.5, None, True),
        (10, 1.0, None, False),
        # Not among five listed, the last of which lies 2 nats behind.
        (99, None, 2.0, False),
    ],
)
def test_a_near_tie_is_judged_by_the_reference_log_probabilities(
    said: int, behind: float | None, beyond: float | None, near: bool
) -> None:
    divergence = compare_outputs(BASE, output("one two X", 1, 2, said)).divergence
    assert divergence is not None
    assert (divergence.behind_nats, divergence.beyond_nats) == (behind, beyond)
    assert divergence.is_near_tie(0.5) is near


def test_a_token_below_five_near_ties_may_be_one_as_well() -> None:
    divergence = compare_outputs(BASE, output("one two X", 1, 2, 99)).divergence
    assert divergence is not None
    assert divergence.is_near_tie(3.0) is None


def test_a_short_list_was_cut_at_ten_nats() -> None:
    divergence = compare_outputs(BASE, output("X", 99, 2)).divergence
    assert divergence is not None
    assert divergence.beyond_nats == 10


@pytest.mark.parametrize(
    ("reference", "other"),
    [
        (output("one two six", 1, 2, 7), output("one two X", 1, 2, 8)),
        (BASE, output("one two", 1, 2)),
        (output("ab"), output("ac")),
    ],
    ids=["no log-probabilities", "the other ended", "no token ids"],
)
def test_without_evidence_nobody_tells_a_near_tie(
    reference: CapturedOutput, other: CapturedOutput
) -> None:
    divergence = compare_outputs(reference, other).divergence
    assert divergence is not None
    assert divergence.is_near_tie(0.5) is None


def test_equal_text_of_other_tokens_is_exact_and_still_parts() -> None:
    found = compare_outputs(output("ab", 1, 2), output("ab", 3))
    assert found.exact
    assert found.divergence is not None
    assert found.divergence.token == 0


@pytest.mark.parametrize(
    ("one", "other", "fraction", "edits"),
    [("", "", 1.0, 0.0), ("", "ab", 0.0, 1.0), ("ab", "abcd", 1.0, 0.5)],
)
def test_an_empty_or_shorter_text_is_measured_too(
    one: str, other: str, fraction: float, edits: float
) -> None:
    found = compare_outputs(output(one), output(other))
    assert (found.prefix_fraction, found.edit_distance) == (fraction, edits)


def test_a_failed_or_missing_output_makes_a_pair_not_whole() -> None:
    failed = output("one", prompt_id="p", status="timeout")
    for others in ((failed,), ()):
        pair = compare(
            Capture(arm="a", deployment="x", outputs=(BASE,)),
            Capture(arm="a", deployment="y", outputs=others),
        )
        assert not pair.whole
        assert pair.divergences == ()
        assert pair.worst == Worst()


def test_the_worst_is_taken_for_each_measure_on_its_own() -> None:
    one = Capture(
        arm="a",
        deployment="x",
        outputs=(output("abcd", 1, 2, 3, 4), output("ab", 1, 2, prompt_id="q")),
    )
    two = Capture(
        arm="a",
        deployment="y",
        outputs=(output("abcX", 1, 2, 3, 9), output("abXXXX", 1, 2, 7, 7, 7, prompt_id="q")),
    )
    pair = compare(one, two)
    assert pair.exact == 0
    assert worst([pair]) == Worst(prefix_fraction=0.75, edit_distance=4 / 6, tokens=3)
