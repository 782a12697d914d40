"""What an audit can state: each property's type, part in a comparison, and which way more counts.

The table is the only place that says what a property is. What is not in it is text, and a confound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

Kind = Literal["text", "flag", "count", "amount", "counts"]
Part = Literal["own", "controlled", "confound", "reading"]
Value = str | bool | int | float | tuple[int, ...]


@attrs.frozen
class Property:
    """What one fact of an audit is about."""

    title: str
    kind: Kind = "text"
    """`count` is a whole number, `amount` a real one, `counts` a list of whole numbers."""
    part: Part = "confound"
    """own: the method itself. controlled: must be equal, a difference rejects the comparison.
    confound: a difference is told with every effect. reading: varies between equal launches."""
    more: Literal["faster", "slower", "unclear"] = "unclear"
    """Which way a server goes with more of it, all else equal; a flag that is on is more."""
    unit: str = ""


PROPERTIES: Mapping[str, Property] = {
    "engine_version": Property("engine version", part="controlled"),
    "method": Property("speculative method", part="own"),
    "num_speculative_tokens": Property("tokens drafted at once", "count", "own"),
    "drafter": Property("draft model or head", part="own"),
    "draft_tensor_parallel": Property("accelerators of the draft", "count", "own"),
    "rejection_sample_method": Property("verification", part="own"),
    "tensor_parallel": Property("accelerators a layer", "count", "controlled"),
    "pipeline_parallel": Property("pipeline stages", "count", "controlled"),
    "data_parallel": Property("replicas", "count", "controlled"),
    "async_scheduling": Property("async scheduling", "flag", more="faster"),
    "model_runner": Property("model runner"),
    "max_num_batched_tokens": Property(
        "batched-token budget of a step", "count", more="faster", unit="tokens"
    ),
    "max_num_scheduled_tokens": Property(
        "scheduled-token budget of a step", "count", more="faster", unit="tokens"
    ),
    "max_num_seqs": Property("most sequences at once", "count", more="faster"),
    "max_num_active_seqs": Property("most active sequences", "count", more="faster"),
    "chunked_prefill": Property("chunked prefill", "flag"),
    "prefix_caching": Property("prefix caching", "flag", "controlled"),
    "cudagraph_mode": Property("graph mode"),
    "cudagraph_capture_sizes": Property("captured graph sizes", "counts", unit="tokens"),
    "graphs_captured": Property("captured graphs of decode steps", "count", "reading"),
    "enforce_eager": Property("eager execution", "flag", more="slower"),
    "attention_backend": Property("attention backend"),
    "dtype": Property("data type", part="controlled"),
    "quantization": Property("quantization", part="controlled"),
    "kv_cache_dtype": Property("data type of the KV cache", part="controlled"),
    "kv_cache_tokens": Property("KV cache", "count", more="faster", unit="tokens"),
    "kv_cache_memory_gib": Property("KV cache memory", "amount", "reading", unit="GiB"),
    "gpu_memory_utilization": Property("memory fraction", "amount", "controlled"),
    "model_memory_gib": Property("memory of the weights", "amount", "reading", unit="GiB"),
    "graph_memory_gib": Property("memory of the graphs", "amount", "reading", unit="GiB"),
    "max_model_len": Property("longest context", "count", "controlled", unit="tokens"),
    "tokenizer": Property("tokenizer", part="controlled"),
    "chat_template": Property("chat template", part="controlled"),
    "generation_config": Property("generation config", part="controlled"),
    "default_sampling": Property("sampling defaults of the model", part="controlled"),
    "stream_interval": Property("tokens an event waits for", "count", "controlled"),
    "per_request_metrics": Property("acceptance metrics of each request"),
    "compiled_graphs": Property("where compiled graphs came from"),
    "load_s": Property("loading weights", "amount", "reading", unit="s"),
    "compile_s": Property("compilation", "amount", "reading", unit="s"),
    "capture_s": Property("capturing graphs", "amount", "reading", unit="s"),
    "engine_start_s": Property("starting the engine", "amount", "reading", unit="s"),
    "startup_s": Property("first line to listening", "amount", "reading", unit="s"),
    "preemptions_logged": Property("preemptions told by the log", "count", "reading"),
    "served": Property("server came up", "flag", "reading"),
    "engine_died": Property("died after it came up", "flag", "reading"),
}
"""Every fact that the built-in engines can state, in the order in which they are shown."""


def property_of(name: str) -> Property:
    """Give what a fact is about; one that the table lacks is text, and a confound."""
    return PROPERTIES.get(name) or Property(name.replace("_", " "))


def typed(name: str, text: str) -> Value | None:
    """Give a stated text as its property's type, or None when it is none of that type."""
    kind = property_of(name).kind
    try:
        if kind == "flag":
            return {"true": True, "false": False}[text.lower()]
        if kind == "count":
            return int(text)
        if kind == "amount":
            return float(text)
        if kind == "counts":
            return tuple(int(part) for part in text.split(",") if part.strip())
    except (ValueError, KeyError):
        return None
    return text


def shown(name: str, text: str | None) -> str:
    """Give a stated text as people read it: with its unit, a long list by its ends."""
    if text is None:
        return "unknown"
    value, unit = typed(name, text), property_of(name).unit
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return f"{value[0]} to {value[-1]} {unit}, {len(value)} sizes" if value else "none"
    said = f"{value:,}" if isinstance(value, int) else text
    return f"{said} {unit}".rstrip()
