"""The metric families of vLLM's /metrics, in its order and words. Read from captured pages."""

from __future__ import annotations

from typing import Literal

import attrs

SECONDS_TO_FIRST = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
SECONDS_PER_TOKEN = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0),
)
SECONDS_OF_REQUEST = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
TOKENS_OF_STEP = tuple(float(2**power) for power in (0, *range(3, 15)))
PREEMPTIONS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)
CHOICES = (1.0, 2.0, 5.0, 10.0, 20.0)

GAPS = "inter_token_latency_seconds"
CACHE = "cache_config_info"


@attrs.frozen
class Family:
    """One family. Every series of it has the labels `model_name` and `engine`."""

    kind: Literal["counter", "gauge", "histogram"]
    name: str
    """Without the prefix `vllm:` and without what the client library appends."""
    said: str
    """The HELP text."""
    label: str = ""
    """One more label, if any."""
    values: tuple[str, ...] = ("",)
    """Its values, all of which exist from the start."""
    buckets: tuple[float, ...] = ()
    newer: bool = False
    """Whether 0.23.0 does not have it."""


def token_buckets(max_model_len: int) -> tuple[float, ...]:
    """Give 1, 2, 5, 10, ... up to the longest sequence (vllm/v1/metrics/loggers.py)."""
    powers = range(len(str(max_model_len)))
    steps = [float(mantissa * 10**power) for power in powers for mantissa in (1, 2, 5)]
    return tuple(step for step in steps if step <= max_model_len)


def speculative(depth: int) -> tuple[Family, ...]:
    """Give the families that exist only with speculation."""
    return (
        Family("counter", "spec_decode_num_drafts", "Number of spec decoding drafts."),
        Family("counter", "spec_decode_num_draft_tokens", "Number of draft tokens."),
        Family("counter", "spec_decode_num_accepted_tokens", "Number of accepted tokens."),
        Family(
            "counter",
            "spec_decode_num_accepted_tokens_per_pos",
            "Accepted tokens per draft position.",
            "position",
            tuple(map(str, range(depth))),
        ),
    )


def always(max_model_len: int) -> tuple[Family, ...]:
    """Give the other families."""
    tokens = token_buckets(max_model_len)
    return (
        *_OF_ENGINE,
        Family(
            "histogram",
            "request_prompt_tokens",
            "Number of prefill tokens processed.",
            buckets=tokens,
        ),
        Family(
            "histogram",
            "request_generation_tokens",
            "Number of generation tokens processed.",
            buckets=tokens,
        ),
        Family(
            "histogram",
            "iteration_tokens_total",
            "Histogram of number of tokens per engine_step.",
            buckets=TOKENS_OF_STEP,
        ),
        Family(
            "histogram",
            "request_max_num_generation_tokens",
            "Histogram of maximum number of requested generation tokens.",
            buckets=tokens,
        ),
        Family(
            "histogram",
            "request_params_n",
            "Histogram of the n request parameter.",
            buckets=CHOICES,
        ),
        Family(
            "histogram",
            "request_params_max_tokens",
            "Histogram of the max_tokens request parameter.",
            buckets=tokens,
        ),
        Family(
            "histogram",
            "time_to_first_token_seconds",
            "Histogram of time to first token in seconds.",
            buckets=SECONDS_TO_FIRST,
        ),
        Family(
            "histogram",
            GAPS,
            "Histogram of inter-token latency in seconds.",
            buckets=SECONDS_PER_TOKEN,
        ),
        Family(
            "histogram",
            "request_time_per_output_token_seconds",
            "Histogram of time_per_output_token_seconds per request.",
            buckets=SECONDS_PER_TOKEN,
        ),
        *(
            Family("histogram", name, said, buckets=SECONDS_OF_REQUEST)
            for name, said in _OF_REQUEST.items()
        ),
        Family(
            "histogram",
            "request_num_preemptions",
            "Histogram of the number of times a request was preempted.",
            buckets=PREEMPTIONS,
            newer=True,
        ),
        Family(
            "histogram",
            "request_prefill_kv_computed_tokens",
            "Histogram of new KV tokens computed during prefill (excluding cached tokens).",
            buckets=tokens,
        ),
    )


_OF_REQUEST = {
    "e2e_request_latency_seconds": "Histogram of e2e request latency in seconds.",
    "request_queue_time_seconds": "Histogram of time spent in WAITING phase for request.",
    "request_inference_time_seconds": "Histogram of time spent in RUNNING phase for request.",
    "request_prefill_time_seconds": "Histogram of time spent in PREFILL phase for request.",
    "request_decode_time_seconds": "Histogram of time spent in DECODE phase for request.",
}

_MFU = "(for Model Flops Utilization calculations)."
_EXTERNAL = "from KV connector cross-instance cache sharing, in terms of number of queried tokens."

_OF_ENGINE = (
    Family(
        "counter",
        "estimated_flops_per_gpu",
        f"Estimated number of floating point operations per GPU {_MFU}",
    ),
    Family(
        "counter",
        "estimated_read_bytes_per_gpu",
        f"Estimated number of bytes read from memory per GPU {_MFU}",
    ),
    Family(
        "counter",
        "estimated_write_bytes_per_gpu",
        f"Estimated number of bytes written to memory per GPU {_MFU}",
    ),
    Family("gauge", "num_requests_running", "Number of requests in model execution batches."),
    Family("gauge", "num_requests_waiting", "Number of requests waiting to be processed."),
    Family(
        "gauge",
        "num_requests_waiting_by_reason",
        "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling "
        "capacity; 'deferred' = deferred by transient constraints (LoRA budget, KV transfer, "
        "blocked status). Sum of all reasons equals vllm:num_requests_waiting.",
        "reason",
        ("capacity", "deferred"),
    ),
    Family(
        "gauge",
        "engine_sleep_state",
        "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; "
        "weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
        "sleep_state",
        ("awake", "weights_offloaded", "discard_all"),
    ),
    Family("gauge", "kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage."),
    Family(
        "counter",
        "prefix_cache_queries",
        "Prefix cache queries, in terms of number of queried tokens.",
    ),
    Family(
        "counter", "prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens."
    ),
    Family(
        "counter", "external_prefix_cache_queries", f"External prefix cache queries {_EXTERNAL}"
    ),
    Family(
        "counter",
        "external_prefix_cache_hits",
        f"External prefix cache hits {_EXTERNAL.replace('queried', 'cached')}",
    ),
    Family(
        "counter",
        "mm_cache_queries",
        "Multi-modal cache queries, in terms of number of queried items.",
    ),
    Family(
        "counter", "mm_cache_hits", "Multi-modal cache hits, in terms of number of cached items."
    ),
    Family("counter", "num_preemptions", "Cumulative number of preemption from the engine."),
    Family("counter", "prompt_tokens", "Number of prefill tokens processed."),
    Family(
        "counter",
        "prompt_tokens_by_source",
        "Number of prompt tokens by source.",
        "source",
        ("local_compute", "local_cache_hit", "external_kv_transfer"),
    ),
    Family("counter", "prompt_tokens_cached", "Number of cached prompt tokens (local + external)."),
    Family(
        "counter",
        "prompt_tokens_cached_by_source",
        "Prefix-cache hit tokens by the cache tier that supplied them: device (local HBM), host "
        "(offloaded to DRAM), disk, p2p (transferred from another vLLM instance) or "
        "external_unspecified. Counted at admission; sums to vllm:prefix_cache_hits + "
        "vllm:external_prefix_cache_hits.",
        "source",
        ("device", "host", "p2p", "disk", "external_unspecified"),
        newer=True,
    ),
    Family("counter", "generation_tokens", "Number of generation tokens processed."),
    Family(
        "counter",
        "request_success",
        "Count of successfully processed requests.",
        "finished_reason",
        ("stop", "length", "abort", "error", "repetition"),
    ),
)
