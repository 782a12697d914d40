from __future__ import annotations

from collections.abc import Callable

import pytest

from specbench.errors import ExperimentError
from specbench.experiment.decision import Decision
from specbench.experiment.identity import run_digest
from specbench.experiment.read import ReadExperiment
from tests.conftest import SMALL

Read = Callable[..., ReadExperiment]


def test_a_decision_is_read_as_it_was_declared(read_small: Read) -> None:
    read = read_small(
        f"{SMALL}decision: {{metric: tpot_p50_s, at: [4], materiality: 0.1, traffic_mix: {{mixed: 1}}}}\n"
    )
    assert read.experiment.decision == Decision(
        metric="tpot_p50_s", at=(4,), materiality=0.1, traffic_mix={"mixed": 1}
    )


def test_a_rule_that_is_changed_after_looking_makes_another_run(read_small: Read) -> None:
    declared = f"{SMALL}decision: {{materiality: 0.01}}\n"
    assert run_digest(read_small(declared)) != run_digest(read_small())


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("at: [1, 16]", "decision.at[1]: 16 is no load point; one of: 1, 4"),
        ("traffic_mix: {mixed: 0.5}", "decision.traffic_mix: the shares sum to 0.5"),
        ("traffic_mix: {chat: 1}", "a share of 'chat', which is no stratum; one of: mixed"),
        ("traffic_mix: {mixed: -1}", "the share of 'mixed' is below 0"),
        ("metric: goodput", "decision.metric"),
        ("regression: 0", "decision.regression"),
        ("materialty: 0.1", "materialty"),
    ],
)
def test_what_is_wrong_with_a_decision_is_said_at_its_place(
    written: str, said: str, read_small: Read
) -> None:
    with pytest.raises(ExperimentError) as raised:
        read_small(f"{SMALL}decision: {{{written}}}\n")
    assert said in str(raised.value)
