"""vLLM's shapes on the wire: stream events, /metrics, /server_info and log lines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from specbench.engines.simulated.speculation import Drafting

VERSION = "0.32.0"
"""The vLLM whose shapes are spoken."""
KV_TOKENS = 400_000


@attrs.frozen(kw_only=True)
class Served:
    """What the server was started with."""

    model: str
    name: str
    max_model_len: int
    max_num_seqs: int
    tensor_parallel: int
    drafting: Drafting
    drafter: str | None
    speculation: Mapping[str, Any] | None
    async_asked: bool = True

    @property
    def async_scheduling(self) -> bool:
        """As vLLM 0.32 decides: n-gram loses it."""
        return self.async_asked and self.drafting.method != "ngram"

    @property
    def kv_tokens(self) -> int:
        """A drafter takes a part of the memory."""
        return KV_TOKENS if self.drafter is None else KV_TOKENS * 4 // 5


def event(
    request_id: str,
    *,
    name: str,
    delta: Mapping[str, Any],
    finish_reason: str | None,
    token_ids: list[int] | None,
) -> bytes:
    """Give one stream event."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    if token_ids is not None:
        choice["token_ids"] = token_ids
    return _sse({**_head(request_id, name), "choices": [choice]})


def usage_event(request_id: str, *, name: str, prompt_tokens: int, completion: int) -> bytes:
    """Give the last event, with exact usage and no choice."""
    usage = {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion,
        "completion_tokens": completion,
    }
    return _sse({**_head(request_id, name), "choices": [], "usage": usage})


DONE = b"data: [DONE]\n\n"


def metrics(
    counts: Counter[str], served: Served, *, started_unix_s: float, worst_lateness_s: float
) -> str:
    """Give /metrics with vLLM's names, `_created` twins and one engine.

    One gauge is our own: how late the server was against its deadlines at worst.
    """
    labels = f'engine="0",model_name="{served.name}"'
    lines = [
        "# TYPE process_start_time_seconds gauge",
        f"process_start_time_seconds {started_unix_s}",
        "# TYPE simulated:worst_lateness_seconds gauge",
        f"simulated:worst_lateness_seconds {worst_lateness_s}",
    ]
    for gauge in ("num_requests_running", "num_requests_waiting"):
        lines += [f"# TYPE vllm:{gauge} gauge", f"vllm:{gauge}{{{labels}}} {counts[gauge]:.1f}"]
    for counter, more in _counters(served):
        lines.append(f"# TYPE vllm:{counter}_total counter")
        lines += [
            f"vllm:{counter}_total{{{labels}{extra}}} {counts[counter + extra]:.1f}"
            for extra in more
        ]
        lines.append(f"# TYPE vllm:{counter}_created gauge")
        lines += [f"vllm:{counter}_created{{{labels}{extra}}} {started_unix_s}" for extra in more]
    return "\n".join(lines) + "\n"


def _counters(served: Served) -> Iterator[tuple[str, tuple[str, ...]]]:
    plain = ("",)
    for name in ("generation_tokens", "num_preemptions"):
        yield name, plain
    for name in ("prefix_cache_queries", "prefix_cache_hits"):
        yield name, plain
    reasons = ("stop", "length", "abort", "error")
    yield "request_success", tuple(f',finished_reason="{reason}"' for reason in reasons)
    if served.drafting.depth:
        for name in ("num_drafts", "num_draft_tokens", "num_accepted_tokens"):
            yield f"spec_decode_{name}", plain
        positions = tuple(f',position="{place}"' for place in range(served.drafting.depth))
        yield "spec_decode_num_accepted_tokens_per_pos", positions


def server_info(served: Served) -> dict[str, Any]:
    """Give the resolved configuration as vLLM's development endpoint does."""
    return {
        "vllm_config": {
            "model_config": {
                "model": served.model,
                "tokenizer": served.model,
                "max_model_len": served.max_model_len,
                "dtype": "simulated",
                "enforce_eager": True,
            },
            "cache_config": {
                "enable_prefix_caching": False,
                "kv_cache_size_tokens": served.kv_tokens,
            },
            "parallel_config": {"tensor_parallel_size": served.tensor_parallel},
            "scheduler_config": {
                "max_num_seqs": served.max_num_seqs,
                "async_scheduling": served.async_scheduling,
            },
            "speculative_config": served.speculation,
        }
    }


def log_lines(served: Served) -> Iterator[str]:
    """Give the messages of a launch, without their prefix."""
    yield f"version {VERSION} (simulated)"
    speculation = "None"
    if served.drafting.depth:
        drafter = repr(served.drafter)
        speculation = (
            f"SpeculativeConfig(method={served.drafting.method!r}, model={drafter}, "
            f"num_spec_tokens={served.drafting.depth})"
        )
    yield (
        f"Initializing a V1 LLM engine (v{VERSION}) with config: model={served.model!r}, "
        f"speculative_config={speculation}, dtype=simulated, max_seq_len={served.max_model_len}, "
        f"tensor_parallel_size={served.tensor_parallel}, enable_prefix_caching=False"
    )
    if served.async_asked and not served.async_scheduling:
        yield (
            f"Async scheduling not supported with {served.drafting.method}-based speculative "
            "decoding and will be disabled."
        )
    yield (
        f"Simulated KV cache size: {served.kv_tokens:,} tokens, Maximum concurrency for "
        f"{served.max_model_len:,} tokens per request: "
        f"{served.kv_tokens / served.max_model_len:.2f}x"
    )


def _head(request_id: str, name: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{request_id}", "object": "chat.completion.chunk", "model": name}


def _sse(payload: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(payload, separators=(",", ":")).encode() + b"\n\n"
