from __future__ import annotations

from typing import Any

import pytest

from specbench.engines import ENGINES
from specbench.experiment.model import Target
from specbench.methods import Launch

ENGINE = ENGINES["simulated"]
DRAFT = {"method": "draft_model", "model": "d", "num_speculative_tokens": 3}


def target(**changes: Any) -> Target:
    return Target(**{"engine": "simulated", "model": "toy", **changes})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"flags": {"max_num_seqs": 3}}, "no flag 'max_num_seqs'"),
        ({"flags": {"preset": "h100"}}, "no preset 'h100'"),
        ({"flags": {"preset": "gh200x4-70b"}}, "stands for 4 GPUs, not 1"),
        ({"version": "0.24.0"}, "does not speak vLLM 0.24.0"),
        ({"flags": {"fault": ("crash-after=1", "explode=2")}}, "no fault 'explode'"),
        ({"env": {"SPECBENCH_FAULTS": "hang-after=soon"}}, "needs a number, such as hang-after=3"),
    ],
)
def test_what_the_simulated_server_does_not_have_is_refused(
    changes: dict[str, Any], said: str
) -> None:
    (problem,) = ENGINE.check(target(**changes), Launch())
    assert said in problem.message
    assert problem.source is None or not problem.source


def test_what_vllm_of_that_version_refuses_is_told_with_its_source() -> None:
    tiers = {**DRAFT, "num_speculative_tokens_per_batch_size": [[1, 4, 3]]}
    (problem,) = ENGINE.check(target(version="0.23.0"), Launch(speculation=tiers))
    assert "0.23 does not know the field" in problem.message
    assert problem.source
    assert ENGINE.check(target(version="0.32.0"), Launch(speculation=tiers)) == ()


def test_a_method_that_no_vllm_has_is_served() -> None:
    unheard = {"method": "lookahead", "num_speculative_tokens": 3}
    assert ENGINE.check(target(), Launch(speculation=unheard)) == ()


def test_the_command_names_the_version_whose_shapes_are_spoken() -> None:
    def shapes(**changes: Any) -> str:
        argv = ENGINE.command(target(**changes), Launch(), "python").argv
        return argv[argv.index("--shapes") + 1]

    assert shapes(version="0.23.0") == "0.23.0"
    assert shapes() == "0.32.0"
