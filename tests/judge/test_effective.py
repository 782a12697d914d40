from __future__ import annotations

import pytest

from specbench.engines import ENGINES
from specbench.facts import Audit, Fact
from specbench.judge import effective
from specbench.methods import Expected
from specbench.observe.logs import audit
from tests.conftest import CAPTURES


def audited(folder: str) -> Audit:
    log = (CAPTURES / folder / "launch.log").read_text(errors="replace")
    return audit(log, ENGINES["vllm"].log_patterns(), ())


DRAFT = Expected(methods=("draft_model",), drafter="/models/draft", longest_draft=3)


def test_a_real_draft_model_launch_is_in_effect() -> None:
    assert effective.in_effect(effective.judge(audited("vllm-0.23.0-h200/draft-k3"), DRAFT))


def test_a_real_baseline_is_in_effect_without_speculation() -> None:
    verdicts = effective.judge(audited("vllm-0.23.0-h200/baseline"), Expected(methods=()))
    assert [v.outcome for v in verdicts] == ["pass"]


@pytest.mark.parametrize(
    ("folder", "expected", "gate"),
    [
        ("baseline", DRAFT, "in_effect.method"),
        ("eagle-k3", DRAFT, "in_effect.method"),
        (
            "draft-k3",
            Expected(methods=("draft_model",), longest_draft=5),
            "in_effect.num_speculative_tokens",
        ),
        (
            "draft-k3",
            Expected(methods=("draft_model",), drafter="/other", longest_draft=3),
            "in_effect.drafter",
        ),
        ("ngram-k3", Expected(methods=()), "in_effect.method"),
    ],
)
def test_a_server_that_runs_something_else_is_rejected(
    folder: str, expected: Expected, gate: str
) -> None:
    verdicts = effective.judge(audited(f"vllm-0.23.0-h200/{folder}"), expected)
    assert not effective.in_effect(verdicts)
    assert gate in {v.gate for v in verdicts if v.outcome == "fail"}


def test_what_no_source_states_is_undecided_not_passed() -> None:
    verdicts = effective.judge(Audit(facts=()), DRAFT)
    assert {v.outcome for v in verdicts} == {"undecided"}


def test_a_path_that_renames_the_method_is_caught() -> None:
    renamed = Audit(facts=(Fact(name="method", value="eagle3", source="log"),))
    assert not effective.in_effect(effective.judge(renamed, DRAFT))
