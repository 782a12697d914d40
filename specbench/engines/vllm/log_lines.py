"""Lines of vLLM's launch log that state facts, without their prefix (0.11 to 0.33).

Keys are messages, never file and line, because those move with every release. Each was read in a
captured log of 0.23.0 or 0.32.0, or in the source of a version between 0.11 and 0.33.
"""

from __future__ import annotations

from specbench.facts import LogPattern

_CONFIG = r"^Initializing a V1 LLM engine .*?"
_ARGS = r"^non-default args: \{.*?"


def _configured(fact: str, regex: str, constant: str | None = None) -> LogPattern:
    """Give a value inside the one line that has the whole configuration.

    The text after a value is part of the regex, so that a cut line states nothing.
    """
    return LogPattern(fact=fact, regex=_CONFIG + regex, constant=constant)


def _on_or_off(fact: str, on: str, *off: str) -> tuple[LogPattern, ...]:
    return (
        LogPattern(fact=fact, regex=on, constant="True"),
        *(LogPattern(fact=fact, regex=regex, constant="False") for regex in off),
    )


CONFIGURATION: tuple[LogPattern, ...] = (
    LogPattern(
        fact="engine_version",
        # The banner's third line: block letters, then the version.
        regex=r"█ .*█ +version (?P<value>\d+\.\d+\S*)$",
        literal="█ ",
        begins=True,
    ),
    LogPattern(
        fact="engine_version",
        regex=r"^Initializing a V1 LLM engine \(v(?P<value>[^)]+)\) with config: ",
    ),
    _configured("method", r"speculative_config=SpeculativeConfig\(method='(?P<value>[^']+)'"),
    _configured("method", r"speculative_config=None,", "none"),
    _configured(
        "drafter",
        r"speculative_config=SpeculativeConfig\(method='[^']+', model='(?P<value>[^']+)'",
    ),
    _configured(
        "num_speculative_tokens",
        r"speculative_config=SpeculativeConfig\([^)]*num_spec_tokens=(?P<value>\d+)\)",
    ),
    _configured("tokenizer", r"[ ,]tokenizer='(?P<value>[^']+)'"),
    _configured("dtype", r"[ ,]dtype=(?P<value>[\w.]+),"),
    _configured("max_model_len", r"[ ,]max_seq_len=(?P<value>\d+),"),
    _configured("tensor_parallel", r"[ ,]tensor_parallel_size=(?P<value>\d+),"),
    _configured("pipeline_parallel", r"[ ,]pipeline_parallel_size=(?P<value>\d+),"),
    # With several replicas each engine's own line says 1.
    LogPattern(
        fact="data_parallel",
        regex=_CONFIG + r"[ ,]data_parallel_size=(?P<value>\d+),",
        keep="most",
    ),
    LogPattern(
        fact="data_parallel",
        regex=_ARGS + r"'data_parallel_size': (?P<value>\d+)[,}]",
        keep="most",
    ),
    _configured("quantization", r"[ ,]quantization=(?P<value>[\w-]+),"),
    _configured("kv_cache_dtype", r"[ ,]kv_cache_dtype=(?P<value>\w+),"),
    _configured("enforce_eager", r"[ ,]enforce_eager=(?P<value>True|False)"),
    _configured("prefix_caching", r"enable_prefix_caching=(?P<value>True|False)"),
    _configured("chunked_prefill", r"enable_chunked_prefill=(?P<value>True|False)"),
    _configured("per_request_metrics", r"per_request_spec_decode_metrics='(?P<value>\w+)'"),
    _configured("cudagraph_mode", r"'cudagraph_mode': <CUDAGraphMode\.(?P<value>\w+): "),
    LogPattern(
        fact="cudagraph_capture_sizes",
        regex=_CONFIG + r"'cudagraph_capture_sizes': \[(?P<value>[\d, ]*)\]",
        listed=True,
    ),
    # The sizes above are those of the configuration: with drafts the engine's own process captures
    # fewer (H200, 0.23: 49 of 51).
    LogPattern(
        fact="graphs_captured",
        regex=r"^Capturing CUDA graphs \((?:decode, )?FULL\): 100%\|[^|]*\| (?P<value>\d+)/\d+ ",
        literal="Capturing CUDA graphs (",
        keep="most",
    ),
    LogPattern(fact="max_num_seqs", regex=_ARGS + r"'max_num_seqs': (?P<value>\d+)[,}]"),
    LogPattern(
        fact="gpu_memory_utilization",
        regex=_ARGS + r"'gpu_memory_utilization': (?P<value>[\d.]+)[,}]",
    ),
    LogPattern(fact="generation_config", regex=_ARGS + r"'generation_config': '(?P<value>[^']+)'"),
    LogPattern(fact="chat_template", regex=_ARGS + r"'chat_template': '(?P<value>[^']+)'"),
    LogPattern(
        fact="chat_template",
        regex=r"^non-default args: (?!.*'chat_template').*\}$",
        constant="none was given",
    ),
    LogPattern(
        fact="rejection_sample_method",
        regex=_ARGS + r"'rejection_sample_method': '(?P<value>\w+)'",
    ),
    LogPattern(
        fact="default_sampling",
        regex=r"^Default (?:vLLM )?sampling parameters have been overridden by .*: "
        r"`(?P<value>[^`]+)`",
        listed=True,
    ),
)
"""Settings that the log states as they were resolved or given."""

SCHEDULING: tuple[LogPattern, ...] = (
    *_on_or_off(
        "async_scheduling",
        r"^Asynchronous scheduling is enabled\.$",
        r"^Asynchronous scheduling is disabled\.$",
        r"^Async scheduling not supported with \S+-based speculative decoding and will be disabled",
        r"^Async scheduling is not compatible with disable_padded_drafter_batch=True and will be",
        r"^Async scheduling will be disabled because it is not supported with the ",
        r"^Async scheduling is disabled (?:because the V1 model runner|for ROCm)",
    ),
    LogPattern(fact="model_runner", regex=r"^Using V2 Model Runner$", constant="V2"),
    LogPattern(
        fact="model_runner",
        regex=r"^Model Runner V2 (?:does not yet support .+|requires Triton); "
        r"using the V1 model runner instead\.$",
        constant="V1",
    ),
    # All that V1 says where VLLM_USE_V2_MODEL_RUNNER asked for it; V2 loads "from scratch".
    LogPattern(fact="model_runner", regex=r"^Starting to load model .+\.\.\.$", constant="V1"),
    LogPattern(
        fact="max_num_batched_tokens",
        regex=r"^Chunked prefill is enabled with max_num_batched_tokens=(?P<value>\d+)\.$",
    ),
    LogPattern(
        fact="max_num_scheduled_tokens",
        regex=r"^max_num_scheduled_tokens is set to (?P<value>-?\d+) based on the speculative",
    ),
    LogPattern(
        fact="max_num_active_seqs",
        regex=r"^The \w+ draft pass needs .*max_num_active_seqs from \d+ to (?P<value>\d+)\.$",
    ),
    LogPattern(
        fact="max_model_len",
        regex=r"^The draft model's max_model_len .* reducing max_model_len to (?P<value>\d+)\.$",
        decides=True,
    ),
    LogPattern(
        fact="preemptions_logged",
        regex=r"^Engine \d+: .*, Preemptions: (?P<value>\d+), ",
        keep="most",
    ),
)

KERNELS: tuple[LogPattern, ...] = (
    LogPattern(
        fact="attention_backend",
        regex=r"^Using (?P<value>\w+) attention backend out of potential backends: ",
        keep="each",
    ),
    LogPattern(
        fact="attention_backend",
        regex=r"^Using (?:AttentionBackendEnum\.)?(?P<value>\w+) backend\.$",
        keep="each",
    ),
    LogPattern(
        fact="attention_backend",
        regex=r"^Using (?P<value>[\w /-]+?) backend on V1 engine\.$",
        keep="each",
    ),
    LogPattern(
        fact="cudagraph_mode",
        regex=r"; setting cudagraph_mode=(?:CUDAGraphMode\.)?(?P<value>\w+)",
        literal="; setting cudagraph_mode=",
        decides=True,
    ),
    LogPattern(
        fact="cudagraph_mode",
        regex=r"[Oo]verriding cudagraph_mode (?:from )?(?:\w+ )?to (?P<value>[A-Z_]+)",
        literal="verriding cudagraph_mode",
        decides=True,
    ),
    LogPattern(
        fact="compiled_graphs",
        regex=r"^Compiling a graph for compile range .* takes ",
        constant="compiled",
        keep="each",
    ),
    LogPattern(
        fact="compiled_graphs",
        regex=r"Directly load the compiled graph\(s\) for .* from the cache",
        literal="Directly load the compiled graph",
        constant="cache",
        keep="each",
    ),
)

MEMORY: tuple[LogPattern, ...] = (
    LogPattern(
        fact="kv_cache_tokens",
        regex=r"^[\w +]+? KV cache size: (?P<value>[\d,]+) tokens",
        literal=" KV cache size: ",
        keep="least",
    ),
    LogPattern(
        fact="kv_cache_memory_gib",
        regex=r"^Available KV cache memory: (?P<value>-?[\d.]+) GiB$",
        keep="least",
    ),
    LogPattern(
        fact="kv_cache_memory_gib",
        regex=r"^Explicitly set \((?P<value>[\d.]+)/[\d.]+\) GiB for KV cache on node ",
        keep="least",
    ),
    LogPattern(
        fact="model_memory_gib",
        regex=r"^Model loading took (?P<value>[\d.]+) GiB(?: memory)? and [\d.]+ seconds$",
        keep="most",
    ),
    LogPattern(
        fact="graph_memory_gib",
        regex=r"^Graph capturing finished in \d+ secs, took (?P<value>-?[\d.]+) GiB$",
        keep="most",
    ),
)

TIMES: tuple[LogPattern, ...] = (
    LogPattern(
        fact="load_s",
        regex=r"^Model loading took [\d.]+ GiB(?: memory)? and (?P<value>[\d.]+) seconds$",
        keep="most",
    ),
    LogPattern(
        fact="compile_s",
        regex=r"^init engine \(profile, create kv cache, warmup model\) took [\d.]+ s(?:econds)? "
        r"\(compilation: (?P<value>[\d.]+) s",
        keep="most",
    ),
    LogPattern(
        fact="capture_s",
        regex=r"^Graph capturing finished in (?P<value>\d+) secs, took -?[\d.]+ GiB$",
        keep="most",
    ),
    LogPattern(
        fact="engine_start_s",
        regex=r"^init engine \(profile, create kv cache, warmup model\) took (?P<value>[\d.]+) s",
        keep="most",
    ),
    LogPattern(
        fact="startup_s",
        regex=r"^Starting vLLM (?:API )?server (?:\d+ )?on \S+$",
        elapsed=True,
    ),
    LogPattern(
        fact="served",
        regex=r"^(?:INFO: +)?Application startup complete\.$",
        literal="Application startup complete.",
        constant="True",
    ),
    LogPattern(
        fact="engine_died",
        regex=r"^EngineCore encountered a fatal error\.$",
        constant="True",
    ),
)


def _warning(
    kind: str, regex: str, meaning: str, literal: str = "", *, timed: bool = False
) -> LogPattern:
    return LogPattern(fact=kind, regex=regex, warning=meaning, literal=literal, timed=timed)


WARNINGS: tuple[LogPattern, ...] = (
    _warning(
        # Said when a compilation is over, of each kernel for its first only
        # (vllm/utils/jit_monitor.py, 0.32; 0.23 logs the same line).
        "kernel_compiled_late",
        r"^Triton kernel JIT compilation during inference: ",
        "a kernel was compiled while requests ran: a warm-up was too short for its shape",
        timed=True,
    ),
    _warning(
        "graphs_not_captured",
        r"^Skipping (?:encoder and decoder )?CUDA graph capture\.",
        "every step is launched kernel by kernel",
    ),
    _warning(
        "graph_mode_lowered",
        r"^CUDAGraphMode\.\w+ is not supported with ",
        "fewer steps run as graphs than were asked for",
        "CUDAGraphMode.",
    ),
    _warning(
        "cascade_attention_off",
        r"^Disabling cascade attention",
        "shared prefixes are not computed once: favours the side that keeps it",
    ),
    _warning(
        "no_openmp",
        r"^Speculative decoding on CPU without Intel OpenMP",
        "speculation on this processor is slower than it could be: favours the baseline",
    ),
    _warning(
        "request_options_refused",
        r"^min_p(?:, min_tokens,)? and logit_bias parameters won't work with speculative decoding",
        "requests with these options are refused or not drafted",
        "logit_bias parameters",
    ),
    _warning(
        "layers_reused",
        r"^Enabling num_speculative_tokens > 1 will run\s*multiple times",
        "one trained layer drafts several tokens: acceptance falls with the position",
    ),
    _warning(
        "lossy_verification",
        r"^FLy verification is a lossy speculative decoding method",
        "outputs may differ from the target's own",
    ),
    _warning(
        "dynamic_depth_off",
        r"^Dynamic speculative decoding (?:is not supported|changes the target verification)",
        "the depth by batch size is off, or graphs are fewer",
    ),
    _warning(
        "draft_probabilities_missing",
        r"^Missing cached draft probabilities for request ",
        "a draft was verified without its probabilities",
    ),
    _warning(
        "slow_activation",
        r"CUDA-fused xIELU not available",
        "the target's activation runs in Python in every arm: ratios are flattered",
        "CUDA-fused xIELU",
    ),
    _warning(
        "stale_metrics",
        r"^Found PROMETHEUS_MULTIPROC_DIR was set by user\.",
        "counters of an earlier server may be served",
    ),
    _warning(
        "weights_dequantized",
        r"Weight-only FP\d compression will be used leveraging the Marlin kernel",
        "the quantized kernel of this accelerator is another one",
        "Weight-only FP",
    ),
    _warning(
        "quantization_deprecated",
        r"^The quantization method \S+ is deprecated",
        "the quantization is no longer maintained",
    ),
    _warning(
        "draft_shortened",
        r"^Overriding draft model max model len from \d+ to \d+$",
        "beyond that length nothing is drafted; nothing is lost where the target serves no longer",
    ),
)
"""Warnings that change what a measurement means."""

PATTERNS = (*CONFIGURATION, *SCHEDULING, *KERNELS, *MEMORY, *TIMES, *WARNINGS)
