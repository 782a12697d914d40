from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.judge.anomalies import Measured, Told, anomalies
from specbench.judge.prompt_reuse import prompt_reuse, runs_of


def cell(**changes: Any) -> Measured:
    given: dict[str, Any] = {
        "block": 1,
        "arm": "draft",
        "is_baseline": False,
        "stratum": "chat",
        "sampling": "greedy",
        "greedy": True,
        "concurrency": 1,
        "drafts": 100,
        "acceptance_rate": 0.6,
        "tokens_per_step": 2.0,
        "output_mean": 128.0,
        "tpot_p50_s": 0.006,
        "output_throughput": 150.0,
        "steady_throughput": 140.0,
        "verification": "standard",
        "random_prompts": False,
    }
    return Measured(**(given | changes))


BASE = cell(
    arm="baseline",
    is_baseline=True,
    drafts=None,
    acceptance_rate=None,
    tokens_per_step=None,
    tpot_p50_s=0.01,
    output_throughput=100.0,
    steady_throughput=100.0,
    verification=None,
)


def kinds(*cells: Measured) -> list[str]:
    return [anomaly.kind for anomaly in anomalies(cells)]


def test_numbers_that_fit_are_no_anomaly() -> None:
    assert kinds(BASE, cell()) == []
    # Both sides of 1, 4.0% apart: 1.02 / 0.981.
    assert kinds(BASE, cell(output_throughput=102.0, steady_throughput=98.1)) == []
    assert kinds(BASE, cell(steady_throughput=None)) == []


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"verification": "synthetic"}, "synthetic_acceptance", "not a measurement"),
        ({"random_prompts": True}, "random_prompts", "random tokens"),
        ({"acceptance_rate": 0.0}, "acceptance_at_an_end", "nothing that was drafted"),
        ({"acceptance_rate": 1.0}, "acceptance_at_an_end", "everything that was drafted"),
        ({"output_mean": 131.0}, "output_length_differs", "+2.3%"),
        # EAGLE of an H200 at 128, block 1: 1.11 and 0.95 of the baseline's.
        (
            {"output_throughput": 111.5, "steady_throughput": 95.0},
            "ends_of_the_window_decide",
            "1.11 of the baseline's over the window and 0.95",
        ),
        # 2.0 tokens a step allow TPOT to be halved: 10 ms to 4 ms is more.
        ({"tpot_p50_s": 0.004}, "tpot_contradicts_acceptance", "2.50 times better"),
    ],
)
def test_each_kind_is_told_in_words(changes: dict[str, Any], kind: str, said: str) -> None:
    (found,) = anomalies([BASE, cell(**changes)])
    assert found.kind == kind
    assert said in found.sentence


def test_acceptance_that_moves_with_the_load_is_told_of_greedy_decoding_alone() -> None:
    moving = [cell(acceptance_rate=0.6), cell(acceptance_rate=0.5, concurrency=8)]
    assert kinds(*moving) == ["acceptance_moves_with_concurrency"]
    assert "60.0% at c=1, 50.0% at c=8" in anomalies(moving)[0].sentence
    assert kinds(cell(acceptance_rate=0.6), cell(acceptance_rate=0.56, concurrency=8)) == []
    warm = [
        attr for c in moving for attr in [cell(greedy=False, acceptance_rate=c.acceptance_rate)]
    ]
    assert kinds(*warm) == []


def test_a_cell_without_its_baseline_is_compared_with_nothing() -> None:
    assert kinds(cell(output_mean=500.0, tpot_p50_s=0.0001)) == []


def test_each_anomaly_of_all_loads_is_told_once() -> None:
    loads = [cell(verification="synthetic", concurrency=c) for c in (1, 8)]
    assert kinds(*loads) == ["synthetic_acceptance"]


PROMPT = frozenset(runs_of("def add(a, b): return a + b"))


@pytest.mark.parametrize(
    ("output", "share"),
    [
        ("return a + b", 1.0),
        # Five runs: `x ) : return`, `) : return a`, `: return a +`, `return a + b`, `a + b now`;
        # the first and the last are not in the prompt.
        ("x): return a + b now", 3 / 5),
        ("nothing of that is here", 0.0),
        ("too short", None),
    ],
)
def test_prompt_reuse_is_the_share_of_runs_of_four(output: str, share: float | None) -> None:
    assert prompt_reuse(PROMPT, output) == share


@given(st.text(max_size=80))
def test_a_text_reuses_all_of_itself(text: str) -> None:
    assert prompt_reuse(frozenset(runs_of(text)), text) in (1.0, None)


@pytest.mark.parametrize(
    ("surely", "said"), [(True, "; inside this window, in block 1: "), (False, "; perhaps inside")]
)
def test_what_the_log_warns_of_inside_a_window_is_an_anomaly_of_its_cell(
    surely: bool, said: str
) -> None:
    told = Told(kind="compiled", meaning="it was compiled", line="Compiling.", surely=surely)
    (found,) = anomalies([BASE, cell(told=(told,))])
    assert (found.kind, found.arm, found.concurrency) == ("compiled", "draft", 1)
    assert found.sentence.startswith(f"it was compiled{said}")
    assert found.sentence.endswith(": Compiling.")
