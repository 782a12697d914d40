from __future__ import annotations

from typing import Any

import pytest

from specbench.engines.known import ENGINES
from specbench.experiment.model import Sampling
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


def test_another_parallelism_than_asked_rejects() -> None:
    asked = Expected(methods=(), properties={"tensor_parallel": "2"})
    (verdict,) = [
        v
        for v in effective.judge(audited("vllm-0.23.0-h200/baseline"), asked)
        if "tensor" in v.gate
    ]
    assert (verdict.outcome, verdict.observed, verdict.required) == ("fail", "1", "2")


DEFAULTS = (
    "Default vLLM sampling parameters have been overridden by the model's `generation_config.json`: "
    "`{'temperature': 0.6, 'top_k': 20, 'top_p': 0.9}`. If this is not intended, please relaunch "
    "vLLM instance with `--generation-config vllm`."
)


def sampled(line: str, **asked: Any) -> list[tuple[str, str]]:
    log = f"(APIServer pid=1) WARNING 11-29 15:01:27 [model.py:1894] {line}\n"
    found = audit(log, ENGINES["vllm"].log_patterns(), ())
    verdicts = effective.judge(found, Expected(methods=()), [Sampling(name="s", **asked)])
    return [(v.outcome, v.observed) for v in verdicts if v.gate == "in_effect.sampling"]


def test_what_a_model_adds_to_the_asked_sampling_rejects() -> None:
    assert sampled(DEFAULTS, temperature=1.0) == [("fail", "top_k=20, top_p=0.9")]
    assert sampled(DEFAULTS, temperature=1.0, top_p=0.9) == [("fail", "top_k=20")]
    asked = {"temperature": 1.0, "top_p": 0.9, "top_k": 20}
    assert sampled(DEFAULTS, **asked) == [("pass", "nothing that is not asked for")]


def test_greedy_requests_feel_penalties_and_no_cuts() -> None:
    assert sampled(DEFAULTS, temperature=0.0)[0][0] == "pass"
    penalised = DEFAULTS.replace("'top_k': 20", "'repetition_penalty': 1.1")
    assert sampled(penalised, temperature=0.0) == [("fail", "repetition_penalty=1.1")]


def test_a_model_that_adds_nothing_is_not_ruled_on() -> None:
    assert sampled("Using max model len 8192", temperature=1.0) == []
