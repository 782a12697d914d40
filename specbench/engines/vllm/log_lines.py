"""Lines of vLLM's launch log that state facts, without their prefix (0.11 to 0.33).

Keys are messages, never file and line, because those move with every release.
"""

from __future__ import annotations

from specbench.facts import LogPattern

PATTERNS: tuple[LogPattern, ...] = (
    LogPattern(
        fact="engine_version",
        regex=r"^Initializing a V1 LLM engine \(v(?P<value>[^)]+)\) with config: ",
    ),
    LogPattern(
        fact="method",
        regex=r"speculative_config=SpeculativeConfig\(method='(?P<value>[^']+)'",
    ),
    LogPattern(
        fact="method",
        regex=r"^Initializing a V1 LLM engine .*speculative_config=None,",
        constant="none",
    ),
    LogPattern(
        fact="drafter",
        regex=r"speculative_config=SpeculativeConfig\(method='[^']+', model='(?P<value>[^']+)'",
    ),
    LogPattern(
        fact="num_speculative_tokens",
        regex=r"speculative_config=SpeculativeConfig\([^)]*num_spec_tokens=(?P<value>\d+)\)",
    ),
    LogPattern(fact="dtype", regex=r"^Initializing a V1 LLM engine .*[ ,]dtype=(?P<value>[\w.]+)"),
    LogPattern(
        fact="max_model_len",
        regex=r"^Initializing a V1 LLM engine .*[ ,]max_seq_len=(?P<value>\d+)",
    ),
    LogPattern(
        fact="tensor_parallel",
        regex=r"^Initializing a V1 LLM engine .*[ ,]tensor_parallel_size=(?P<value>\d+)",
    ),
    LogPattern(
        fact="quantization",
        regex=r"^Initializing a V1 LLM engine .*[ ,]quantization=(?P<value>[\w-]+)",
    ),
    LogPattern(
        fact="enforce_eager",
        regex=r"^Initializing a V1 LLM engine .*[ ,]enforce_eager=(?P<value>True|False)",
    ),
    LogPattern(
        fact="prefix_caching",
        regex=r"^Initializing a V1 LLM engine .*enable_prefix_caching=(?P<value>True|False)",
    ),
    LogPattern(
        fact="async_scheduling", regex=r"^Asynchronous scheduling is enabled\.$", constant="True"
    ),
    LogPattern(
        fact="async_scheduling", regex=r"^Asynchronous scheduling is disabled\.$", constant="False"
    ),
    LogPattern(fact="model_runner", regex=r"^Using V2 Model Runner$", constant="V2"),
    LogPattern(
        fact="model_runner",
        regex=r"^Model Runner V2 (?:does not yet support .+|requires Triton); "
        r"using the V1 model runner instead\.$",
        constant="V1",
    ),
    LogPattern(
        fact="max_num_batched_tokens",
        regex=r"^Chunked prefill is enabled with max_num_batched_tokens=(?P<value>\d+)\.$",
    ),
    LogPattern(
        fact="max_num_scheduled_tokens",
        regex=r"^max_num_scheduled_tokens is set to (?P<value>-?\d+) based on the speculative",
    ),
    LogPattern(
        fact="attention_backend",
        regex=r"^Using (?P<value>\w+) attention backend out of potential backends: ",
    ),
    LogPattern(
        fact="attention_backend",
        regex=r"^Using (?:AttentionBackendEnum\.)?(?P<value>\w+) backend\.$",
    ),
    LogPattern(fact="kv_cache_tokens", regex=r"^[\w +]+? KV cache size: (?P<value>[\d,]+) tokens"),
    LogPattern(
        fact="kv_cache_memory_gib", regex=r"^Available KV cache memory: (?P<value>-?[\d.]+) GiB$"
    ),
    LogPattern(
        fact="model_memory_gib",
        regex=r"^Model loading took (?P<value>[\d.]+) GiB(?: memory)? and [\d.]+ seconds$",
    ),
    LogPattern(
        fact="load_s",
        regex=r"^Model loading took [\d.]+ GiB(?: memory)? and (?P<value>[\d.]+) seconds$",
    ),
    LogPattern(
        fact="engine_start_s",
        regex=r"^init engine \(profile, create kv cache, warmup model\) took (?P<value>[\d.]+) s",
    ),
)
