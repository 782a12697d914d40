"""What the simulated server was started with, and what it made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs

SUFFIX_DEPTH = 24
"""vLLM's suffix_decoding_max_tree_depth."""
VERSIONS = ("0.23.0", "0.32.0")
"""The vLLMs whose shapes are spoken."""

Version = Literal["0.23.0", "0.32.0"]
Runner = Literal["V1", "V2"]
RequestMetrics = Literal["none", "summary", "detailed"]


@attrs.frozen(kw_only=True)
class Served:
    """The resolved configuration: what /server_info and the launch log tell."""

    version: Version
    preset: str
    model: str
    name: str
    """What requests call the model."""
    tensor_parallel: int
    data_parallel: int
    max_model_len: int
    max_num_seqs: int
    max_num_batched_tokens: int
    max_num_scheduled_tokens: int
    """What a step may schedule: below the batched tokens where drafting needs slots."""
    gpu_memory_utilization: float
    prefix_caching: bool
    enforce_eager: bool
    async_scheduling: bool
    model_runner: Runner
    kv_cache_tokens: int
    kv_cache_gib: float
    model_memory_gib: float
    speculation: Mapping[str, Any] | None
    """The speculative configuration as asked, or None."""
    request_metrics: RequestMetrics
    """Whether a usage event carries the request's own speculative metrics."""
    reasoning: bool
    """Whether a reasoning parser splits the answer."""
    async_asked: bool = False
    """Whether asynchronous scheduling was asked for or against: then vLLM decides and warns of
    nothing."""
    runner_asked: bool = False
    """Whether VLLM_USE_V2_MODEL_RUNNER named the runner: then vLLM does not fall back and warns of
    nothing."""

    @property
    def method(self) -> str:
        """Give the speculative method, or `none`. A model without a method is a draft model."""
        if self.speculation is None:
            return "none"
        return str(self.speculation.get("method") or "draft_model")

    @property
    def depth(self) -> int:
        """Give the most tokens of a draft; 0 without speculation."""
        if self.speculation is None:
            return 0
        return int(self.speculation.get("num_speculative_tokens") or SUFFIX_DEPTH)
