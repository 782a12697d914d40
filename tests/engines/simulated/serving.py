"""Configurations of simulated servers, as vLLM would resolve them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from specbench.engines.simulated.defaults import decide
from specbench.engines.simulated.served import Served
from tests.conftest import ROOT

CAPTURES = ROOT / "tests/captures"

DRAFT = {"method": "draft_model", "model": "/models/draft", "num_speculative_tokens": 3}
NGRAM = {
    "method": "ngram",
    "num_speculative_tokens": 3,
    "prompt_lookup_max": 4,
    "prompt_lookup_min": 2,
}
EAGLE = {"method": "eagle", "model": "/models/eagle", "num_speculative_tokens": 3}
EAGLE3 = {"method": "eagle3", "model": "/models/eagle3", "num_speculative_tokens": 3}


def served(
    version: str = "0.23.0", speculation: Mapping[str, Any] | None = None, **others: Any
) -> Served:
    """Give the H200's configuration (0.23.0) or the captured CPU's one (0.32.0), with changes."""
    h200 = {
        "name": "target",
        "max_model_len": 8192,
        "max_num_seqs": 1024,
        "max_num_batched_tokens": 8192,
        "gpu_memory_utilization": 0.85,
        "enforce_eager": False,
        "kv_cache_tokens": 1_721_792,
    }
    cpu = {
        "name": "tiny",
        "max_model_len": 1024,
        "max_num_seqs": 8,
        "max_num_batched_tokens": 2048,
        "gpu_memory_utilization": 0.92,
        "enforce_eager": True,
        "kv_cache_tokens": 524_288,
    }
    resolved: dict[str, Any] = {
        "preset": "test",
        "model": "/models/target",
        "tensor_parallel": 1,
        "data_parallel": 1,
        "prefix_caching": True,
        "kv_cache_gib": 105.09,
        "model_memory_gib": 10.75,
        "request_metrics": "none",
        "reasoning": False,
        **(h200 if version == "0.23.0" else cpu),
        **others,
    }
    decided = decide(
        version=version,
        speculation=speculation,
        tensor_parallel=resolved["tensor_parallel"],
        max_num_seqs=resolved["max_num_seqs"],
        max_num_batched_tokens=resolved["max_num_batched_tokens"],
        async_scheduling=None,
        request_metrics=resolved["request_metrics"],
        environment={},
    )
    assert decided.refusal is None
    return Served(
        version=version,
        speculation=speculation,
        async_scheduling=decided.async_scheduling,
        model_runner=decided.model_runner,
        max_num_scheduled_tokens=decided.max_num_scheduled_tokens,
        **resolved,
    )


def captured_json(path: str) -> Any:
    return json.loads((CAPTURES / path).read_text())
