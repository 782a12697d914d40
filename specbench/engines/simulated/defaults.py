"""What vLLM decides by itself on a GPU, and what it refuses at launch. Pure.

0.23.0 as captured on an H200 and read in its sources, 0.32.0 as read in its sources (on a GPU with
Triton). The target is taken to be a dense, unquantised `LlamaForCausalLM`, for which both versions
prefer the V2 model runner (0.23 does so for a list of architectures, 0.32 for all).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import attrs

from specbench.engines.simulated import speculative_config
from specbench.engines.simulated.served import RequestMetrics, Runner, Version
from specbench.engines.simulated.speculative_config import method_of, refused_value

Place = Literal["arguments", "config", "worker"]

ASYNCHRONOUS: dict[Version, frozenset[str]] = {
    "0.23.0": frozenset(("eagle", "eagle3", "mtp", "dflash", "ngram_gpu")),
    "0.32.0": frozenset(
        (
            "eagle",
            "eagle3",
            "mtp",
            "dflash",
            "ngram_gpu",
            "draft_model",
            "dspark",
        )
    ),
}
"""Methods that keep asynchronous scheduling by default (vllm/config/vllm.py:__post_init__)."""
ALSO_WHEN_ASKED = frozenset(("draft_model",))
"""0.23 takes it off these by default, and honours an explicit flag."""
KINDS: dict[Version, str] = {
    "0.23.0": "EAGLE/MTP/Draft Model/NGram GPU",
    "0.32.0": "EAGLE/MTP/Draft Model/NGram GPU/DSpark/DFlash",
}
ON_V2_IN_0_23 = frozenset(("eagle", "eagle3", "mtp"))
NOT_ON_V2_IN_0_32 = frozenset(("suffix", "medusa", "mlp_speculator", "custom_class"))


@attrs.frozen(kw_only=True)
class Decided:
    """What a launch comes to. With a refusal the server does not come up."""

    async_scheduling: bool
    model_runner: Runner
    max_num_scheduled_tokens: int
    refusal: str | None
    """The end of vLLM's error as it stands in the log, several lines."""
    refused_in: Place | None
    """What refuses: argument parsing, the configuration (API server) or a worker."""
    runner_asked: bool
    """Whether the environment named the runner."""


def decide(
    *,
    version: Version,
    speculation: Mapping[str, Any] | None,
    tensor_parallel: int,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    async_scheduling: bool | None,
    request_metrics: RequestMetrics,
    environment: Mapping[str, str],
) -> Decided:
    """Give runner, scheduling and token budget of a launch, or why vLLM refuses it.

    `async_scheduling` is None without either flag. Of the environment only
    VLLM_USE_V2_MODEL_RUNNER counts.
    """
    asked = environment.get("VLLM_USE_V2_MODEL_RUNNER", "")
    runner = _runner(version, speculation, asked)
    scheduled = scheduled_tokens(
        version,
        speculation,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
    )
    refusals = (
        *_refused_arguments(version, request_metrics),
        *_refused_speculation(version, speculation, tensor_parallel),
        *_refused_together(
            version, speculation, async_scheduling, request_metrics, asked, scheduled
        ),
        *(_refused_by_worker(speculation, runner, tensor_parallel) if speculation else ()),
    )
    place, refusal = next(iter(refusals), (None, None))
    return Decided(
        async_scheduling=(
            _asynchronous(version, speculation) if async_scheduling is None else async_scheduling
        ),
        model_runner=runner,
        max_num_scheduled_tokens=scheduled,
        refusal=refusal,
        refused_in=place,
        runner_asked=bool(asked),
    )


def scheduled_tokens(
    version: Version,
    speculation: Mapping[str, Any] | None,
    *,
    max_num_seqs: int,
    max_num_batched_tokens: int,
) -> int:
    """Give how many tokens a step may schedule.

    0.23 keeps slots free for drafting: batched tokens - slots x sequences, with no slot for n-gram,
    EAGLE and MTP, 1 for a draft model, K - 1 for parallel drafting and DFlash, K for a parallel
    draft model (vllm/config/vllm.py:_set_max_num_scheduled_tokens). 0.32 keeps none.
    """
    if speculation is None or version != "0.23.0":
        return max_num_batched_tokens
    method = method_of(speculation)
    depth = int(speculation.get("num_speculative_tokens") or 0)
    slots = 1 if method == "draft_model" else 0
    if speculation.get("parallel_drafting") or method == "dflash":
        slots = depth if method == "draft_model" else depth - 1
    return max_num_batched_tokens - slots * max_num_seqs


def without_v2(version: Version, speculation: Mapping[str, Any] | None) -> str | None:
    """Give what the V2 model runner cannot do of a speculation, in vLLM's words; None if all."""
    if speculation is None:
        return None
    method = method_of(speculation)
    if version == "0.23.0" and method in ("ngram", "ngram_gpu"):
        return "ngram/ngram_gpu speculative decoding"
    known = method in ON_V2_IN_0_23 if version == "0.23.0" else method not in NOT_ON_V2_IN_0_32
    if not known:
        return f"speculative method '{method}'"
    if speculation.get("parallel_drafting") and method not in ("dflash", "dspark"):
        return "parallel drafting for EAGLE speculative decoding"
    if speculation.get("use_heterogeneous_vocab"):
        return "heterogeneous-vocabulary draft models"
    return None


def _runner(version: Version, speculation: Mapping[str, Any] | None, asked: str) -> Runner:
    if asked:
        return "V2" if int(asked) else "V1"
    return "V1" if without_v2(version, speculation) else "V2"


def _asynchronous(version: Version, speculation: Mapping[str, Any] | None) -> bool:
    if speculation is None:
        return True
    unpadded = bool(speculation.get("disable_padded_drafter_batch"))
    return method_of(speculation) in ASYNCHRONOUS[version] and not unpadded


Refusal = tuple[Place, str]


def _refused_arguments(version: Version, request_metrics: RequestMetrics) -> Iterator[Refusal]:
    """Give the flag that 0.23 does not have."""
    if version == "0.23.0" and request_metrics != "none":
        flag = f"--per-request-spec-decode-metrics {request_metrics}"
        usage = "usage: api_server.py [-h] [options]"
        yield "arguments", f"{usage}\napi_server.py: error: unrecognized arguments: {flag}"


def _refused_speculation(
    version: Version, speculation: Mapping[str, Any] | None, tensor_parallel: int
) -> Iterator[Refusal]:
    if speculation is not None:
        for said in speculative_config.refusals(version, speculation, tensor_parallel):
            yield "config", said


def _refused_together(
    version: Version,
    speculation: Mapping[str, Any] | None,
    async_scheduling: bool | None,
    request_metrics: RequestMetrics,
    runner: str,
    scheduled: int,
) -> Iterator[Refusal]:
    """Give what VllmConfig refuses: flags, environment and speculation together."""
    said = []
    if async_scheduling and speculation is not None:
        if method_of(speculation) not in ASYNCHRONOUS[version] | ALSO_WHEN_ASKED:
            said.append(
                f"Currently, async scheduling is only supported with {KINDS[version]} kind of "
                "speculative decoding"
            )
        if speculation.get("disable_padded_drafter_batch"):
            said.append(
                "Async scheduling is not compatible with disable_padded_drafter_batch=True."
            )
    if request_metrics != "none" and speculation is None:
        said.append(
            "--per-request-spec-decode-metrics requires speculative decoding to be enabled (via "
            "--speculative-config)."
        )
    lacking = without_v2(version, speculation)
    if runner and int(runner) and lacking:
        said.append(f"Model Runner V2 does not yet support: {lacking}")
    if scheduled <= 0:
        said.append(
            f"max_num_scheduled_tokens is set to {scheduled} based on the speculative decoding "
            "settings, which does not allow any tokens to be scheduled. Increase "
            "max_num_batched_tokens to accommodate the additional draft token slots, or decrease "
            "num_speculative_tokens or max_num_seqs."
        )
    for text in said:
        yield "config", refused_value(version, "VllmConfig", text)


def _refused_by_worker(
    speculation: Mapping[str, Any], runner: Runner, tensor_parallel: int
) -> Iterator[Refusal]:
    """Give the unequal parallelism of a draft model, which only the V1 runner checks."""
    draft = speculation.get("draft_tensor_parallel_size")
    unequal = draft not in (None, tensor_parallel)
    if method_of(speculation) == "draft_model" and runner == "V1" and unequal:
        said = (
            "Currently, 'draft_tensor_parallel_size' and 'tensor_parallel_size' must be the same. "
            f"Got {draft} and {tensor_parallel}. Please pass 'draft_tensor_parallel_size' in the "
            "speculative_config."
        )
        yield "worker", f"ValueError: {said}"
