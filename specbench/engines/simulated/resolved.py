"""What the server tells of its own configuration: /server_info, /version and /v1/models. Pure.

A part of vLLM's tree, under vLLM's own keys as captured on 0.23.0 and 0.32.0; nothing in it that
no simulated server could know. `additional_config` says that it is simulated.
"""

from __future__ import annotations

import hashlib
from typing import Any

from specbench.engines.simulated.served import Served
from specbench.engines.simulated.speculative_config import filled

BLOCK_SIZE = 16
"""Tokens of a KV block on a GPU, in both versions."""
LARGEST_GRAPH = 512
"""Most tokens of a captured graph, on GPUs before Blackwell (vllm/config/vllm.py)."""


def server_info(served: Served) -> dict[str, Any]:
    """Give `/server_info?config_format=json`."""
    return {
        "vllm_config": {
            "model_config": _model_config(served),
            "cache_config": cache_config(served),
            "parallel_config": _parallel_config(served),
            "scheduler_config": _scheduler_config(served),
            "device_config": {"device": "cuda"},
            "lora_config": None,
            "speculative_config": _speculative_config(served),
            "structured_outputs_config": {
                "backend": "auto",
                "reasoning_parser": "simulated" if served.reasoning else "",
            },
            "observability_config": _observability_config(served),
            "quant_config": None,
            "compilation_config": _compilation_config(served),
            "additional_config": {"simulated_by": "specbench", "preset": served.preset},
        },
        "vllm_env": {"VLLM_SERVER_DEV_MODE": True},
        "system_env": {"vllm_version": served.version},
    }


def version(served: Served) -> dict[str, str]:
    """Give `/version`."""
    return {"version": served.version}


def models(served: Served, *, created: int) -> dict[str, Any]:
    """Give `/v1/models` for a server that started at `created`, in unix seconds."""
    permission = {
        "id": f"modelperm-{fingerprint(served, 'permission', digits=16)}",
        "object": "model_permission",
        "created": created,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    card = {
        "id": served.name,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        "root": served.model,
        "parent": None,
        "max_model_len": served.max_model_len,
        "permission": [permission],
    }
    return {"object": "list", "data": [card]}


def fingerprint(served: Served, purpose: str, *, digits: int) -> str:
    """Give hexadecimal digits that depend on nothing but the configuration and the purpose."""
    return hashlib.sha256(f"{purpose}\x1f{served!r}".encode()).hexdigest()[:digits]


def cache_config(served: Served) -> dict[str, Any]:
    """Give the whole cache configuration: it is also the labels of `vllm:cache_config_info`."""
    told: dict[str, Any] = {
        "block_size": BLOCK_SIZE,
        "user_specified_block_size": False,
        "gpu_memory_utilization": served.gpu_memory_utilization,
        "cache_dtype": "auto",
        "is_attention_free": False,
        "num_gpu_blocks_override": None,
        "sliding_window": None,
        "enable_prefix_caching": served.prefix_caching,
        "prefix_caching_hash_algo": "sha256",
        "kv_cache_dtype_skip_layers": [],
        "mamba_page_size_padded": None,
        "mamba_block_size": None,
        "mamba_cache_dtype": "auto",
        "mamba_ssm_cache_dtype": "auto",
        "mamba_cache_mode": "none",
        "num_gpu_blocks": served.kv_cache_tokens // BLOCK_SIZE,
        "num_cpu_blocks": None,
        "hash_block_size": None,
        "kv_sharing_fast_prefill": False,
        "kv_cache_memory_bytes": None,
        "kv_offloading_size": None,
        "kv_offloading_backend": "native",
        "_block_size_resolved": True,
    }
    if served.version == "0.23.0":
        return {**told, "user_specified_mamba_block_size": False, "calculate_kv_scales": False}
    return {
        **told,
        "kv_cache_layout": None,
        "prefix_match_unit": None,
        "prefix_cache_retention_interval": 0,
        "skip_page_size_padded": None,
        "enable_mamba_shared_prefix_checkpoint": False,
        "replayssm_buffer_len": 16,
        "use_replayssm": False,
        "use_kda_recoverssm": False,
        "effective_attention_block_size": BLOCK_SIZE,
        "kv_cache_size_tokens": served.kv_cache_tokens,
        "kv_cache_max_concurrency": served.kv_cache_tokens / served.max_model_len,
        "cache_hit_alignment_tokens": None,
        "swa_bounded_replay": True,
    }


def capture_sizes(served: Served) -> tuple[int, ...]:
    """Give the token counts for which CUDA graphs are captured, as the configuration tells them.

    1, 2, 4, steps of 8 below 256 and of 16 above, up to twice the widest decode batch and at most
    512; 0.32 adds the decode batches themselves (vllm/config/vllm.py:_set_cudagraph_sizes). The
    0.23 list equals the captured one.
    """
    if served.enforce_eager:
        return ()
    query = 1 + served.depth
    ceiling = min(served.max_num_seqs * query * 2, LARGEST_GRAPH)
    decode: tuple[int, ...] = ()
    if served.version != "0.23.0":
        requests = _grid(min(served.max_num_seqs, LARGEST_GRAPH)) if query > 1 else ()
        decode = tuple(count * query for count in (*requests, served.max_num_seqs))
    most = min(ceiling, served.max_num_batched_tokens)
    sizes = {*_grid(most), *(size for size in decode if size <= ceiling)}
    if served.max_num_batched_tokens <= ceiling:
        sizes.add(served.max_num_batched_tokens)
    return tuple(sorted(size for size in sizes if size <= served.max_num_batched_tokens))


def captured_sizes(served: Served) -> tuple[int, ...]:
    """Give the sizes that a worker captures: whole decode batches of target and drafts.

    A size is rounded up to a multiple of 1 + draft length. With 3 drafts the 51 sizes become 49, as
    captured on 0.23.0 with both runners.
    """
    query = 1 + served.depth
    sizes = capture_sizes(served)
    rounded = {-(-size // query) * query for size in sizes}
    return tuple(sorted(size for size in rounded if size <= max(sizes, default=0)))


def _grid(most: int) -> tuple[int, ...]:
    small = [size for size in (1, 2, 4) if size <= most]
    middle = range(8, min(most + 1, 256), 8)
    return (*small, *middle, *range(256, most + 1, 16))


def _model_config(served: Served) -> dict[str, Any]:
    return {
        "model": served.model,
        "runner": "auto",
        "tokenizer": served.model,
        "tokenizer_mode": "auto",
        "trust_remote_code": False,
        "dtype": "torch.bfloat16",
        "seed": 0,
        "revision": None,
        "max_model_len": served.max_model_len,
        "quantization": None,
        "enforce_eager": served.enforce_eager,
        "max_logprobs": 20,
        "logprobs_mode": "raw_logprobs",
        "served_model_name": served.name,
        "generation_config": "auto",
        "override_generation_config": {},
    }


def _parallel_config(served: Served) -> dict[str, Any]:
    return {
        "pipeline_parallel_size": 1,
        "tensor_parallel_size": served.tensor_parallel,
        "data_parallel_size": served.data_parallel,
        "data_parallel_size_local": served.data_parallel,
        "distributed_executor_backend": "uni" if served.tensor_parallel == 1 else "mp",
        "world_size": served.tensor_parallel,
        "rank": 0,
        "_api_process_count": 1,
    }


def _scheduler_config(served: Served) -> dict[str, Any]:
    told = {
        "runner_type": "generate",
        "max_num_batched_tokens": served.max_num_batched_tokens,
        "max_num_scheduled_tokens": (
            served.max_num_scheduled_tokens if served.speculation else None
        ),
        "max_num_seqs": served.max_num_seqs,
        "long_prefill_token_threshold": 0,
        "enable_chunked_prefill": True,
        "policy": "fcfs",
        "async_scheduling": served.async_scheduling,
        "stream_interval": 1,
    }
    return told if served.version == "0.23.0" else {**told, "max_num_active_seqs": None}


def _observability_config(served: Served) -> dict[str, Any]:
    told = {"kv_cache_metrics": False, "cudagraph_metrics": False}
    if served.version == "0.23.0":
        return told
    return {**told, "per_request_spec_decode_metrics": served.request_metrics}


def _speculative_config(served: Served) -> dict[str, Any] | None:
    if served.speculation is None:
        return None
    told: dict[str, Any] = {
        "enforce_eager": None,
        "model": None,
        "draft_tensor_parallel_size": None,
        "quantization": None,
        "attention_backend": None,
        "max_model_len": None,
        "disable_padded_drafter_batch": False,
        "use_local_argmax_reduction": False,
        "prompt_lookup_max": 0,
        "prompt_lookup_min": 0,
        "parallel_drafting": False,
        "suffix_decoding_max_tree_depth": 24,
        "suffix_decoding_max_cached_requests": 10000,
        "suffix_decoding_max_spec_factor": 1.0,
        "suffix_decoding_min_token_prob": 0.1,
        "rejection_sample_method": "standard",
        "synthetic_acceptance_rates": None,
        "synthetic_acceptance_length": None,
        "draft_sample_method": "greedy",
    }
    if served.version != "0.23.0":
        told |= {"num_speculative_tokens_per_batch_size": None, "use_heterogeneous_vocab": False}
    return told | filled(
        served.speculation, model=served.model, tensor_parallel=served.tensor_parallel
    )


def _compilation_config(served: Served) -> dict[str, Any]:
    sizes = capture_sizes(served)
    return {
        "mode": 0 if served.enforce_eager else 3,
        "backend": "inductor",
        "cudagraph_mode": 0 if served.enforce_eager else [2, 1],
        "cudagraph_num_of_warmups": 0 if served.enforce_eager else 1,
        "cudagraph_capture_sizes": list(sizes),
        "max_cudagraph_capture_size": max(sizes, default=0),
    }
