from __future__ import annotations

from typing import Any

import attrs
import pytest

from specbench.engines.known import ENGINES
from specbench.engines.simulated.arguments import Configured, arguments, configured
from specbench.engines.simulated.served import VERSIONS
from specbench.experiment.model import Target
from specbench.methods import Launch

ENGINE = ENGINES["simulated"]
DRAFT = {"method": "draft_model", "model": "d", "num_speculative_tokens": 3}


def launched(launch: Launch, version: str) -> Configured:
    """Give what the simulated server makes of a launch."""
    command = ENGINE.command(target(version=version), launch, "python")
    argv = [part.replace("{port}", "8000") for part in command.argv[3:]]
    return configured(arguments(argv), command.environment)


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


def test_only_the_version_that_has_the_flag_tells_the_acceptance_of_requests() -> None:
    assert ENGINE.per_request_metrics(target(version="0.23.0")) is None
    for version in ("0.32.0", None):
        launch = ENGINE.per_request_metrics(target(version=version))
        assert launch is not None
        ready = launched(Launch(speculation=DRAFT, arguments=launch.arguments), "0.32.0")
        assert ready.refusal is None
        assert ready.served.request_metrics == "summary"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("fact", "value", "heeded"),
    [
        ("async_scheduling", "False", {"async_scheduling": False}),
        ("model_runner", "V1", {"model_runner": "V1"}),
        (
            "max_num_scheduled_tokens",
            "7168",
            {"max_num_batched_tokens": 7168, "max_num_scheduled_tokens": 7168},
        ),
    ],
)
def test_a_baseline_can_be_launched_with_what_a_method_loses(
    version: str, fact: str, value: str, heeded: dict[str, Any]
) -> None:
    setting = ENGINE.setting(fact, value)
    assert setting is not None
    plain, changed = launched(Launch(), version), launched(setting.launch, version)
    assert changed.refusal is None
    before, after = attrs.asdict(plain.served), attrs.asdict(changed.served)
    asked = {"async_asked", "runner_asked"}
    assert {name: after[name] for name in after if after[name] != before[name]}.items() - {
        (name, True) for name in asked
    } == heeded.items()


def test_what_no_launch_changes_has_no_setting() -> None:
    assert ENGINE.setting("kv_cache_tokens", "1000") is None
    assert ENGINE.setting("async_scheduling", "True") is None
