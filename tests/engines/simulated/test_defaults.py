from __future__ import annotations

from typing import Any

import pytest

from specbench.engines.known import ENGINES
from specbench.engines.simulated.defaults import Decided, decide
from specbench.engines.simulated.launch_log import failure_lines
from specbench.engines.simulated.speculative_config import filled
from tests.engines.simulated.serving import CAPTURES, DRAFT, EAGLE, EAGLE3, NGRAM, served

VLLM = ENGINES["vllm"]


def decided(version: str, speculation: dict[str, Any] | None, **others: Any) -> Decided:
    settings: dict[str, Any] = {
        "tensor_parallel": 1,
        "max_num_seqs": 1024,
        "max_num_batched_tokens": 8192,
        "async_scheduling": None,
        "request_metrics": "none",
        "environment": {},
        **others,
    }
    return decide(version=version, speculation=speculation, **settings)


MTP = {"method": "mtp", "num_speculative_tokens": 2}
SUFFIX = {"method": "suffix", "num_speculative_tokens": 8}


@pytest.mark.parametrize(
    ("version", "speculation", "expected"),
    [
        # Read in the logs of four servers on an H200.
        ("0.23.0", None, (True, "V2", 8192)),
        ("0.23.0", DRAFT, (False, "V1", 7168)),
        ("0.23.0", NGRAM, (False, "V1", 8192)),
        ("0.23.0", EAGLE, (True, "V2", 8192)),
        # Read in the sources: vllm-internals, sections 0 and 1.
        ("0.23.0", EAGLE3, (True, "V2", 8192)),
        ("0.23.0", MTP, (True, "V2", 8192)),
        ("0.23.0", SUFFIX, (False, "V1", 8192)),
        ("0.32.0", None, (True, "V2", 8192)),
        ("0.32.0", DRAFT, (True, "V2", 8192)),
        ("0.32.0", NGRAM, (False, "V2", 8192)),
        ("0.32.0", EAGLE3, (True, "V2", 8192)),
        ("0.32.0", MTP, (True, "V2", 8192)),
        ("0.32.0", SUFFIX, (False, "V1", 8192)),
    ],
)
def test_each_method_gets_the_scheduling_runner_and_budget_of_its_version(
    version: str, speculation: dict[str, Any] | None, expected: tuple[bool, str, int]
) -> None:
    found = decided(version, speculation)
    assert found.refusal is None
    assert (
        found.async_scheduling,
        found.model_runner,
        found.max_num_scheduled_tokens,
    ) == expected


@pytest.mark.parametrize(
    ("speculation", "sequences", "batched", "scheduled"),
    [
        # The worked examples of vllm-internals, section 1.5.
        (DRAFT, 256, 2048, 1792),
        ({**EAGLE3, "num_speculative_tokens": 5, "parallel_drafting": True}, 1024, 8192, 4096),
        ({**EAGLE3, "method": "dflash", "num_speculative_tokens": 8}, 1024, 8192, 1024),
        ({**DRAFT, "num_speculative_tokens": 4, "parallel_drafting": True}, 1024, 8192, 4096),
    ],
)
def test_drafting_slots_shrink_the_budget_of_0_23_and_not_that_of_0_32(
    speculation: dict[str, Any], sequences: int, batched: int, scheduled: int
) -> None:
    sizes = {"max_num_seqs": sequences, "max_num_batched_tokens": batched}
    assert decided("0.23.0", speculation, **sizes).max_num_scheduled_tokens == scheduled
    assert decided("0.32.0", speculation, **sizes).max_num_scheduled_tokens == batched


def test_a_budget_without_a_token_left_is_refused() -> None:
    said = decided("0.23.0", {**EAGLE3, "method": "dflash", "num_speculative_tokens": 9}).refusal
    assert said is not None
    assert "max_num_scheduled_tokens is set to 0 based on the speculative" in said


def test_scheduling_is_honoured_where_it_is_asked_for_or_against() -> None:
    assert decided("0.23.0", None, async_scheduling=False).async_scheduling is False
    assert decided("0.23.0", DRAFT, async_scheduling=True).async_scheduling is True
    assert decided("0.23.0", DRAFT, async_scheduling=True).refusal is None
    assert decided("0.32.0", EAGLE, async_scheduling=False).async_scheduling is False


@pytest.mark.parametrize(
    ("version", "kinds"),
    [
        ("0.23.0", "EAGLE/MTP/Draft Model/NGram GPU kind"),
        ("0.32.0", "EAGLE/MTP/Draft Model/NGram GPU/DSpark/DFlash kind"),
    ],
)
def test_asynchronous_ngram_is_refused_in_the_versions_words(version: str, kinds: str) -> None:
    found = decided(version, NGRAM, async_scheduling=True)
    assert found.refused_in == "config"
    assert f"async scheduling is only supported with {kinds}" in str(found.refusal)


def test_the_environment_names_the_runner() -> None:
    old = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
    new = {"VLLM_USE_V2_MODEL_RUNNER": "1"}
    baseline = decided("0.23.0", None, environment=old)
    assert (baseline.model_runner, baseline.runner_asked) == ("V1", True)
    assert decided("0.23.0", EAGLE, environment=old).model_runner == "V1"
    assert decided("0.32.0", EAGLE, environment=new).refusal is None
    refused = decided("0.23.0", DRAFT, environment=new).refusal
    assert "Model Runner V2 does not yet support: speculative method 'draft_model'" in str(refused)


SYNTHETIC = {**EAGLE, "rejection_sample_method": "synthetic"}

REFUSED = {
    # Captured refusals, and the configuration that each was captured with.
    "fail-bad-method": ("0.32.0", {"method": "bogus", "num_speculative_tokens": 3}, {}),
    "fail-unknown-key": ("0.32.0", {**NGRAM, "prompt_lookup_maximum": 4}, {}),
    "fail-missing-num-tokens": ("0.32.0", {"method": "ngram", "prompt_lookup_max": 4}, {}),
    "fail-spec-tokens-0": ("0.32.0", {**NGRAM, "num_speculative_tokens": 0}, {}),
    "fail-ngram-min-gt-max": (
        "0.32.0",
        {**NGRAM, "prompt_lookup_max": 2, "prompt_lookup_min": 4},
        {},
    ),
    "fail-draft-tp-not-1-or-target": ("0.32.0", {**DRAFT, "draft_tensor_parallel_size": 2}, {}),
    "refused-draft-tp2": ("0.23.0", {**DRAFT, "draft_tensor_parallel_size": 2}, {}),
    "fail-draft-tp-mismatch": (
        "0.32.0",
        {**DRAFT, "draft_tensor_parallel_size": 1},
        # The capture is of a CPU, which has no other runner.
        {"tensor_parallel": 2, "environment": {"VLLM_USE_V2_MODEL_RUNNER": "0"}},
    ),
}


def logged(found: Decided, version: str) -> str:
    assert found.refusal is not None
    assert found.refused_in is not None
    log = failure_lines(
        found.refusal,
        refused_in=found.refused_in,
        version=version,
        model="/models/target",
        preset="test",
        pid=7,
        asked={},
    )
    return "\n".join(log) + "\n"


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_refused_launch_has_the_cause_of_the_captured_one(name: str) -> None:
    version, speculation, others = REFUSED[name]
    found = VLLM.cause(logged(decided(version, speculation, **others), version))
    real = VLLM.cause((CAPTURES / f"failures/{name}.log").read_text())
    assert (found.kind, found.remedy) == (real.kind, real.remedy)
    # What pydantic quotes of the input, and the whole list of methods, is not played.
    assert cut(found.line) == cut(real.line)


def cut(line: str) -> str:
    return line.partition(" [type=")[0].partition("Input should be 'ngram'")[0]


def test_an_unknown_method_is_answered_with_those_of_the_version() -> None:
    unknown = {"method": "bogus", "num_speculative_tokens": 3}
    assert "'dspark'" in str(decided("0.32.0", unknown).refusal)
    assert "'dspark'" not in str(decided("0.23.0", unknown).refusal)
    assert decided("0.23.0", {**EAGLE, "method": "dspark"}).refused_in == "config"


def test_unequal_parallelism_is_only_seen_by_the_v1_runner() -> None:
    unequal = {**DRAFT, "draft_tensor_parallel_size": 1}
    assert decided("0.23.0", unequal, tensor_parallel=2).refused_in == "worker"
    assert decided("0.32.0", unequal, tensor_parallel=2).refusal is None


@pytest.mark.parametrize(
    ("speculation", "said"),
    [
        (SYNTHETIC, "requires exactly one of synthetic_acceptance_rates or synthetic_"),
        (
            {
                **SYNTHETIC,
                "synthetic_acceptance_rates": [0.9, 0.8, 0.7],
                "synthetic_acceptance_length": 2.0,
            },
            "requires exactly one of",
        ),
        ({**SYNTHETIC, "synthetic_acceptance_rates": [0.9]}, "must have length 3, got [0.9]."),
        ({**SYNTHETIC, "synthetic_acceptance_rates": [0.5, 0.6, 0.1]}, "must be non-increasing"),
        ({**SYNTHETIC, "synthetic_acceptance_rates": [1.5, 0.6, 0.1]}, "must be in [0, 1]"),
        ({**SYNTHETIC, "synthetic_acceptance_length": 4.5}, "must be in [1, 4], got 4.5."),
        ({**EAGLE, "synthetic_acceptance_length": 2.0}, "are only valid with"),
        ({"method": "eagle", "num_speculative_tokens": 3}, "but without speculative model."),
        ({"method": "eagle", "model": "/m"}, "`num_speculative_tokens` was not provided"),
    ],
)
def test_what_contradicts_itself_is_refused(speculation: dict[str, Any], said: str) -> None:
    found = decided("0.23.0", speculation)
    assert said in str(found.refusal)
    assert VLLM.cause(logged(found, "0.23.0")).kind == "refused_configuration"


@pytest.mark.parametrize(
    "extra", [{"synthetic_acceptance_rates": [0.9, 0.5, 0.5]}, {"synthetic_acceptance_length": 4}]
)
def test_synthetic_acceptance_is_served(extra: dict[str, Any]) -> None:
    assert decided("0.23.0", {**SYNTHETIC, **extra}).refusal is None


def test_request_metrics_need_speculation_and_a_version_that_has_them() -> None:
    baseline = decided("0.32.0", None, request_metrics="summary")
    assert "--per-request-spec-decode-metrics requires speculative decoding" in str(
        baseline.refusal
    )
    assert decided("0.32.0", NGRAM, request_metrics="summary").refusal is None
    old = decided("0.23.0", NGRAM, request_metrics="summary")
    assert VLLM.cause(logged(old, "0.23.0")).kind == "bad_flag"


def test_what_is_not_said_is_filled_in_as_vllm_does() -> None:
    def whole(**speculation: Any) -> dict[str, Any]:
        return filled(speculation, model="/models/target", tensor_parallel=2)

    assert whole(method="ngram", num_speculative_tokens=3)["prompt_lookup_min"] == 5
    # The shortest match defaults to the longest, not to 1.
    assert whole(method="ngram", prompt_lookup_max=4)["prompt_lookup_min"] == 4
    assert whole(method="suffix")["num_speculative_tokens"] == 24
    assert whole(method="mtp")["model"] == "/models/target"
    assert whole(**EAGLE)["draft_tensor_parallel_size"] == 2
    assert "draft_tensor_parallel_size" not in whole(method="ngram")


def test_what_may_be_left_out_is_what_the_server_has_served() -> None:
    assert decided("0.32.0", {"method": "suffix"}).refusal is None
    suffix = served("0.32.0", {"method": "suffix"})
    assert (suffix.method, suffix.depth) == ("suffix", 24)
    unnamed = served("0.32.0", {"model": "/models/draft", "num_speculative_tokens": 2})
    assert (unnamed.method, unnamed.depth) == ("draft_model", 2)
