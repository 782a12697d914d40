"""The gate on captures of four tokens a prompt, with every number worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from specbench.capture_facts import Capture, CapturedOutput
from specbench.experiment.model import Margins
from specbench.judge.correctness import ArmVerdict, rule, seed_rule
from specbench.judge.output_pairs import Worst

LETTERS = "abcdefghijklmnopqrstuvwxyz"
WORDS = "abcdefghijklmnopqrst"
"""The baseline's text: a letter a token. At every place the next letter lies 0.25 nats behind, the
one after it 3."""


def said(prompt_id: str, text: str, *, told: bool = True) -> CapturedOutput:
    ids = tuple(LETTERS.index(letter) for letter in text)
    behind = ((0, 0.0), (1, 0.25), (2, 3.0), (3, 4.0), (4, 5.0))
    places = tuple(tuple(((i + step) % 26, nats) for step, nats in behind) for i in ids)
    return CapturedOutput(
        prompt_id=prompt_id,
        text=text,
        token_ids=ids,
        completion_tokens=len(ids),
        candidates=places if told else None,
    )


def captured(role: str, block: int, *texts: str, number: int = 1, told: bool = True) -> Capture:
    arm = {"noise_floor": "baseline-repeat"}.get(role, role)
    return Capture(
        arm=arm,
        role=role,
        deployment=f"b{block:02d}-{arm}",
        block=block,
        number=number,
        outputs=tuple(said(f"p{n}", text, told=told) for n, text in enumerate(texts)),
    )


def parted(place: int, letter: str, rest: str = "") -> str:
    return WORDS[:place] + letter + (rest or WORDS[place + 1 :])


NEAR = parted(18, "t")
"""At place 18 the baseline says s; t lies 0.25 nats behind."""
FAR = parted(18, "u")
"""u lies 3 nats behind."""


def ruled(captures: Sequence[Capture], **more: Any) -> ArmVerdict:
    (found,) = rule(captures, more.get("margins", Margins()), more.get("near_tie_nats", 0.5))
    return found


def small(*arm: str, control: Sequence[str] = (WORDS, WORDS), told: bool = True) -> ArmVerdict:
    """One block: baseline, its repeat, and an arm, on two prompts."""
    return ruled(
        [
            captured("baseline", 1, WORDS, WORDS, told=told),
            captured("noise_floor", 1, *control, told=told),
            captured("arm", 1, *arm, told=told),
        ]
    )


def test_equal_outputs_pass() -> None:
    found = small(WORDS, WORDS)
    assert found.verdict == "pass"
    assert (found.exact, found.prompts) == (2, 2)


def test_a_near_tie_within_the_margins_passes() -> None:
    # Place 18 of 20: prefix 0.9 < 0.95 of an exact control, so the rule fails; at 19 it holds.
    assert small(parted(19, "u"), WORDS).verdict == "pass"


def test_near_ties_explain_what_the_seed_rule_fails() -> None:
    found = small(NEAR, WORDS)
    assert found.verdict == "pass-explained"
    check = found.checks[0]
    assert (check.measure, check.observed, check.allowance, check.held) == (
        "prefix_fraction",
        0.9,
        0.95,
        False,
    )
    assert found.partings[0].near_tie is True


def test_a_token_that_the_baseline_would_not_have_chosen_blocks() -> None:
    found = small(NEAR, FAR)
    assert found.verdict == "blocked"
    assert [p.divergence.behind_nats for p in found.unexplained] == [3.0]
    assert found.reason.startswith("1 of 2 divergences are neither within 0.5 nats")


def test_what_a_control_shows_is_explained_however_unlikely() -> None:
    assert small(FAR, WORDS, control=(FAR, WORDS)).verdict == "pass"
    # The control turns the same way and then goes on otherwise: the turn is explained all the same.
    other = parted(10, "m", "yyyyyyyyy")
    found = small(parted(10, "m", "zzzzzzzzz"), WORDS, control=(other, WORDS))
    assert found.partings[0].shown_by == "b01-baseline-repeat capture 1"
    assert not found.unexplained


def test_a_second_capture_of_one_server_explains_and_is_never_the_control() -> None:
    base = captured("baseline", 1, WORDS)
    within = captured("baseline", 1, FAR, number=2)
    arm = captured("arm", 1, FAR)
    alone = ruled([base, within, arm])
    assert (alone.verdict, alone.checks) == ("undecided", ())
    assert [(c.kind, c.compared) for c in alone.controls] == [("within-deployment", False)]
    controlled = ruled([base, within, arm, captured("noise_floor", 1, WORDS)])
    assert controlled.verdict == "pass-explained"
    assert controlled.partings[0].shown_by == "b01-baseline capture 2"


def test_without_a_control_nothing_is_decided() -> None:
    for text in (WORDS, FAR):
        found = ruled([captured("baseline", 1, WORDS), captured("arm", 1, text)])
        assert found.verdict == "undecided"
        assert "no control" in found.reason


LOOSE = parted(1, "c", "xxxxxxxxxxxxxxxxxx")
"""A control that parts after one letter: a prefix of 0.05, and 19 of 20 letters edited."""


def test_a_loose_control_decides_nothing_by_itself() -> None:
    halfway = parted(10, "l")
    found = small(WORDS, halfway, control=(LOOSE, WORDS), told=False)
    assert found.verdict == "undecided"
    assert [check.loose for check in found.checks] == [True, False, False]
    assert "loose on prefix_fraction" in found.reason


def test_under_a_loose_control_near_ties_still_explain_and_others_still_block() -> None:
    control = (LOOSE, WORDS)
    assert small(WORDS, parted(10, "l"), control=control).verdict == "pass-explained"
    assert small(WORDS, parted(10, "n"), control=control).verdict == "blocked"


def test_an_arm_that_needs_no_allowance_passes_under_a_loose_control() -> None:
    assert small(WORDS, WORDS, control=(LOOSE, WORDS)).verdict == "pass"


def test_without_log_probabilities_a_failed_seed_rule_blocks() -> None:
    assert small(NEAR, WORDS, told=False).verdict == "blocked"


def test_a_prompt_that_failed_is_no_pass() -> None:
    lost = captured("arm", 1, WORDS, WORDS)
    outputs = (lost.outputs[0], attrs.evolve(lost.outputs[1], status="timeout", text=""))
    found = ruled(
        [
            captured("baseline", 1, WORDS, WORDS),
            captured("noise_floor", 1, WORDS, WORDS),
            attrs.evolve(lost, outputs=outputs),
        ]
    )
    assert (found.verdict, found.reason) == ("undecided", "no output to compare for p1")


def test_pairs_are_compared_with_as_many_control_pairs_and_never_with_more() -> None:
    # Three blocks of baselines give two control pairs; the second is far worse than the first.
    # One arm's pair may only be compared with the first of them.
    captures = [
        captured("baseline", 1, WORDS, told=False),
        captured("baseline", 2, WORDS, told=False),
        captured("baseline", 3, parted(8, "z", "zzzzzzzzzzz"), told=False),
    ]
    one = ruled([*captures, captured("arm", 1, parted(9, "y"), told=False)])
    assert one.verdict == "blocked"
    assert [len(c.pairs) for c in one.controls if c.compared] == [1]
    two_arms = [captured("arm", block, parted(9, "y"), told=False) for block in (1, 2)]
    two = ruled([*captures, *two_arms])
    assert [len(c.pairs) for c in two.controls if c.compared] == [2]
    assert two.verdict == "pass"


def test_more_pairs_than_controls_are_compared_group_by_group() -> None:
    captures = [captured("baseline", block, WORDS, told=False) for block in (1, 2)]
    arms = [captured("arm", 1, WORDS, told=False), captured("arm", 2, NEAR, told=False)]
    found = ruled([*captures, *arms])
    # The second group is the one that fails, and is the one told.
    assert found.verdict == "blocked"
    assert found.checks[0].observed == 0.9


def test_each_concurrency_is_ruled_on_its_own() -> None:
    low = [captured("baseline", 1, WORDS), captured("noise_floor", 1, WORDS)]
    high = [attrs.evolve(capture, concurrency=8) for capture in low]
    arms = [captured("arm", 1, WORDS), attrs.evolve(captured("arm", 1, FAR), concurrency=8)]
    found = rule([*low, *high, *arms], Margins(), 0.5)
    assert [(v.concurrency, v.verdict) for v in found] == [(1, "pass"), (8, "blocked")]


def test_an_arms_own_controls_are_reported_and_excuse_nothing() -> None:
    captures = [
        captured("baseline", 1, WORDS),
        captured("baseline", 2, WORDS),
        captured("arm", 1, FAR),
        captured("arm", 2, LOOSE),
    ]
    found = ruled(captures)
    assert found.verdict == "blocked"
    own = [c for c in found.controls if c.arm == "arm"]
    assert [(c.kind, c.compared, c.pairs[0].exact) for c in own] == [("cross-deployment", False, 0)]


def test_an_equalised_twin_is_no_control_of_the_baseline() -> None:
    twin = attrs.evolve(captured("baseline", 1, FAR), role="equalised", arm="twin", deployment="t")
    found = ruled([captured("baseline", 1, WORDS), twin, captured("arm", 1, FAR)])
    assert found.verdict == "undecided"


# The gate of the original study (draft model and n-gram against plain, six prompts).
STUDY = Worst(edit_distance=0.2636494, prefix_fraction=0.0406223, tokens=38)


@pytest.mark.parametrize(
    ("observed", "failing"),
    [
        (Worst(edit_distance=0.3082865, prefix_fraction=0.1273187, tokens=2), []),
        (Worst(edit_distance=0.392, prefix_fraction=0.041, tokens=40), ["edit_distance"]),
    ],
)
def test_the_seed_rule_gives_the_published_allowances_and_outcomes(
    observed: Worst, failing: list[str]
) -> None:
    prefix, edit, tokens = seed_rule(observed, STUDY, Margins(), most_tokens=384)
    assert (prefix.allowance, tokens.allowance) == (0.0, 40)
    assert edit.allowance == pytest.approx(0.3136494, abs=1e-7)
    assert [c.measure for c in (prefix, edit, tokens) if not c.held] == failing
    # That study took it for a pass. An allowance of 0 can never be failed: here it is told.
    assert prefix.loose


def test_a_tighter_control_beside_the_study_s_changes_no_allowance() -> None:
    other = Worst(edit_distance=0.2273504, prefix_fraction=0.0467938, tokens=4)
    both = Worst(
        edit_distance=max(STUDY.edit_distance, other.edit_distance),
        prefix_fraction=min(STUDY.prefix_fraction, other.prefix_fraction),
        tokens=max(STUDY.tokens, other.tokens),
    )
    observed = Worst(edit_distance=0.3082865, prefix_fraction=0.1273187, tokens=2)
    assert seed_rule(observed, both, Margins(), 384) == seed_rule(observed, STUDY, Margins(), 384)
