from __future__ import annotations

import attrs
import pytest

from specbench.report.content import Content, read_content
from specbench.report.correctness import correctness_panel
from specbench.store.store import opened
from tests.conftest import FinishedRun


@pytest.fixture(scope="module")
def content(lossy: FinishedRun) -> Content:
    with opened(lossy.results) as connection:
        return read_content(connection, None)


def test_the_panel_shows_verdicts_beside_controls_and_says_what_a_pass_is(
    content: Content,
) -> None:
    panel = correctness_panel(content)
    assert "A pass is no evidence of a violation on these prompts. It is not a proof" in panel
    assert "<td class='bad'>blocked</td>" in panel
    assert "cross-deployment of baseline" in panel
    assert "can only explain" in panel
    row = content.correctness[0]
    assert f"{row['exact']} of {row['outputs']}" in panel
    assert f"{row['control_exact']} of {row['control_outputs']}" in panel


def test_the_divergences_that_nothing_explains_are_quoted_first(content: Content) -> None:
    panel = correctness_panel(content)
    first = next(row for row in content.divergences if not row["explained"])
    assert first["prompt_id"] in panel
    quoted = panel[panel.index("Where outputs part") :]
    assert quoted.index("<td class='bad'>no</td>") < 1500


def test_an_arm_of_which_nothing_is_claimed_is_named_with_its_explanation(
    content: Content,
) -> None:
    marked = [row for row in content.arm_correctness if row["barred"]]
    assert [row["arm"] for row in marked] == ["eagle-k3", "ngram-k3"]
    explained = attrs.evolve(
        content, arm_correctness=[{**marked[1], "explanation": "It <swaps> tokens."}]
    )
    panel = correctness_panel(explained)
    assert "ngram-k3: nothing is claimed of it: blocked by the correctness gate" in panel
    assert ". Explanation on record, which is no pass: It &lt;swaps&gt; tokens." in panel


def test_a_run_without_captures_says_that_nothing_is_known(content: Content) -> None:
    bare = attrs.evolve(content, correctness=[], arm_correctness=[])
    assert "nothing is known of its outputs" in correctness_panel(bare)


def test_every_effect_carries_the_verdict(content: Content) -> None:
    said = {row["arm"]: row["correctness"] for row in content.effects}
    assert said == {"baseline-repeat": "reference", "eagle-k3": "blocked", "ngram-k3": "blocked"}
