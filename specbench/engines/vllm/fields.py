"""Fields of vLLM's SpeculativeConfig and the first read version that has each.

Read in vllm/config/speculative.py of 0.11.0, 0.23.0, 0.24.0, 0.32.0 and 0.33.0. vLLM refuses a
launch with a field it does not know, so such an arm is unservable, with the version that has it.
"""

from __future__ import annotations

import re

Version = tuple[int, int]

READ: tuple[Version, ...] = ((0, 11), (0, 23), (0, 24), (0, 32), (0, 33))
FIRST, NEWEST = READ[0], READ[-1]

SINCE: dict[str, Version] = {
    **dict.fromkeys(
        (
            "method",
            "model",
            "num_speculative_tokens",
            "draft_tensor_parallel_size",
            "enforce_eager",
            "quantization",
            "revision",
            "code_revision",
            "max_model_len",
            "disable_padded_drafter_batch",
            "prompt_lookup_max",
            "prompt_lookup_min",
        ),
        (0, 11),
    ),
    **dict.fromkeys(
        (
            "moe_backend",
            "attention_backend",
            "use_local_argmax_reduction",
            "parallel_drafting",
            "draft_load_config",
            "rejection_sample_method",
            "draft_sample_method",
            "synthetic_acceptance_rates",
            "synthetic_acceptance_length",
            "suffix_decoding_max_tree_depth",
            "suffix_decoding_max_cached_requests",
            "suffix_decoding_max_spec_factor",
            "suffix_decoding_min_token_prob",
        ),
        (0, 23),
    ),
    "num_speculative_tokens_per_batch_size": (0, 24),
    **dict.fromkeys(
        (
            "kv_cache_dtype",
            "use_heterogeneous_vocab",
            "disable_eagle_block_drop",
            "index_share_for_mtp_iteration",
            "enable_adaptive_verification",
            "dspark_draft_topk",
        ),
        (0, 32),
    ),
    **dict.fromkeys(
        (
            "disable_lookahead_block_hashes",
            "draft_lm_head_quantization",
            "xpress_topc",
            "fly_window_size",
            "fly_entropy_threshold",
            "fly_entropy_top_k",
        ),
        (0, 33),
    ),
}

METHODS: dict[str, tuple[Version, Version | None]] = {
    "ngram": ((0, 11), None),
    "eagle": ((0, 11), None),
    "eagle3": ((0, 11), None),
    "mtp": ((0, 11), None),
    "medusa": ((0, 11), (0, 33)),
    "mlp_speculator": ((0, 11), (0, 33)),
    "draft_model": ((0, 23), None),
    "ngram_gpu": ((0, 23), None),
    "dflash": ((0, 23), None),
    "suffix": ((0, 23), None),
    "custom_class": ((0, 23), None),
    "dspark": ((0, 32), None),
}
"""Speculative methods: first read version that serves it, and first that does so no more."""


def parsed(version: str) -> Version | None:
    """Give major and minor of a version text such as `0.23.0` or `0.32.0+cpu`."""
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else None


def read_before(version: Version) -> Version:
    """Give the newest version read before one."""
    return max(read for read in READ if read < version)


def known_before(version: Version, since: Version) -> bool:
    """Tell whether a version is known to lack what was first read in `since`.

    It may have come in any version after the last one that was read without it.
    """
    return version < since and version <= read_before(since)


def shown(version: Version) -> str:
    """Give a version as it is written."""
    return f"{version[0]}.{version[1]}"
