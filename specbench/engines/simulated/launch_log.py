"""The launch log, line by line as vLLM 0.23.0 and 0.32.0 print it on a GPU.

The 0.23.0 lines are those captured on an H200, the GPU lines of 0.32.0 are read in its sources. One
process plays API server, engine and workers, so all of them have its pid. Left out are lines about
caches, autotuning and libraries, which state nothing about the server, and those that only a
draft's checkpoint or a kernel of a request brings about, of which there are none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from specbench.engines.simulated import log_places as places
from specbench.engines.simulated.defaults import ASYNCHRONOUS, Place, without_v2
from specbench.engines.simulated.log_printer import Printer
from specbench.engines.simulated.resolved import capture_sizes, captured_sizes
from specbench.engines.simulated.served import Served, Version
from specbench.engines.simulated.speculative_config import drafter

ARCHITECTURE = "LlamaForCausalLM"
"""What the simulated target counts as."""
QUIET_BUDGET = 2048
"""0.32 does not print the chunked-prefill line for this class default: a configuration made before
logging is set up takes its only turn."""
LOUD_BELOW = 8192
"""A scheduled budget below this is warned of, with any speculation."""
ROUTES = ("/health", "/metrics", "/version", "/v1/models", "/server_info", "/v1/chat/completions")
LOGO = (
    "",
    "       █     █     █▄   ▄█",
    " ▄▄ ▄█ █     █     █ ▀▄▀ █  version {version}",
    "  █▄█▀ █     █     █     █  model   {model}",
    "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀",
    "",
)
BACKENDS = "['FLASH_ATTN', 'FLASHINFER', 'TRITON_ATTN', 'FLEX_ATTENTION']"


@attrs.frozen(kw_only=True)
class LaunchTimes:
    """How long the parts of the simulated launch took, in seconds."""

    load_s: float
    compile_s: float
    engine_start_s: float
    """Profiling, cache, compilation and graphs."""


def lines(
    served: Served,
    *,
    pid: int,
    port: int,
    asked: Mapping[str, Any],
    times: LaunchTimes,
    clock: Callable[[], float] = time.time,
) -> Iterator[str]:
    """Give every line of a launch that succeeds, without line ends.

    `asked` are the arguments that are no defaults. A line's stamp is what `clock` says, in unix
    seconds, when the line is taken.
    """
    printer = Printer(version=served.version, pid=pid, clock=clock, process="APIServer")
    yield from _opening(printer, served.model, served.preset, asked)
    yield from _configuring(printer, served)
    engine = "EngineCore" if served.data_parallel == 1 else "EngineCore_DP0"
    core = attrs.evolve(printer, process=engine)
    yield core(
        places.CORE,
        f"Initializing a V1 LLM engine (v{served.version}) with config: {_config(served)}",
    )
    worker = attrs.evolve(printer, process=_worker(served))
    yield from _loading(worker, served, times)
    yield from _caching(worker, core, served)
    yield from _capturing(worker, served)
    compiled = "" if served.enforce_eager else f" (compilation: {times.compile_s:.2f} s)"
    yield core(
        places.ENGINE,
        "init engine (profile, create kv cache, warmup model) took "
        f"{times.engine_start_s:.2f} s{compiled}",
    )
    yield printer(places.TASKS, "Supported tasks: ['generate']")
    yield printer(
        places.SECURITY,
        "SECURITY WARNING: Development endpoints are enabled! This should NOT be used in "
        "production!",
        "WARNING",
    )
    yield printer(places.STARTING, f"Starting vLLM server on http://127.0.0.1:{port}")
    yield printer(places.ROUTES, "Available routes are:")
    for route in ROUTES:
        method = "POST" if route.endswith("completions") else "GET"
        yield printer(places.ROUTE, f"Route: {route}, Methods: {method}")
    for line in _uvicorn(pid):
        yield printer.bare(line) if served.version == "0.23.0" else line


def failure_lines(
    refusal: str,
    *,
    refused_in: Place,
    version: Version,
    model: str,
    preset: str,
    pid: int,
    asked: Mapping[str, Any],
    clock: Callable[[], float] = time.time,
) -> Iterator[str]:
    """Give the log of a launch that vLLM refuses, without line ends.

    As captured: argument parsing prints only its own error; the configuration ends the API server
    with a traceback, which 0.32 prints without a prefix; a worker's error stands above the API
    server's generic one. The frames between are left out.
    """
    if refused_in == "arguments":
        yield from refusal.splitlines()
        return
    printer = Printer(version=version, pid=pid, clock=clock, process="APIServer")
    yield from _opening(printer, model, preset, asked)
    traceback = ["Traceback (most recent call last):", *refusal.splitlines()]
    if refused_in == "worker":
        core = attrs.evolve(printer, process="EngineCore")
        for line in ("EngineCore failed to start.", *traceback):
            yield core(places.FAILED, line, "ERROR")
        generic = "Engine core initialization failed. See root cause above. Failed core proc(s): {}"
        traceback = [traceback[0], f"RuntimeError: {generic}"]
    for line in traceback:
        yield printer.bare(line) if version == "0.23.0" else line


def _uvicorn(pid: int) -> Iterator[str]:
    """Give what uvicorn says before it listens. 0.32 prints it without a prefix."""
    yield f"INFO:     Started server process [{pid}]"
    yield "INFO:     Waiting for application startup."
    yield "INFO:     Application startup complete."


def _opening(printer: Printer, model: str, preset: str, asked: Mapping[str, Any]) -> Iterator[str]:
    for row in LOGO:
        yield printer(places.BANNER, row.format(version=printer.version, model=model))
    yield printer(
        places.BANNER,
        f"simulated by specbench, preset {preset}: no model is loaded and no accelerator is used, "
        "and every duration is that of a cost model",
        "WARNING",
    )
    yield printer(places.ARGUMENTS, f"non-default args: {dict(asked)!r}")


def _configuring(printer: Printer, served: Served) -> Iterator[str]:
    for _ in range(1 if drafter(served.speculation, served.model) is None else 2):
        yield printer(places.MODEL, f"Resolved architecture: {ARCHITECTURE}")
        yield printer(places.LENGTH, f"Using max model len {served.max_model_len}")
    budget = served.max_num_batched_tokens
    if served.version == "0.23.0" or budget != QUIET_BUDGET:
        yield printer(
            places.CHUNKED, f"Chunked prefill is enabled with max_num_batched_tokens={budget}."
        )
    yield from _scheduling(printer, served)
    if served.enforce_eager:
        yield printer(places.EAGER, _eager(served.version), "WARNING")
    if served.speculation and served.max_num_scheduled_tokens < LOUD_BELOW:
        ending = " or max_num_seqs." if served.version == "0.23.0" else "."
        yield printer(
            places.BUDGET,
            f"max_num_scheduled_tokens is set to {served.max_num_scheduled_tokens} based on the "
            "speculative decoding settings. This may lead to suboptimal performance. Consider "
            "increasing max_num_batched_tokens to accommodate the additional draft token slots, "
            f"or decrease num_speculative_tokens{ending}",
            "WARNING",
        )
    lacking = without_v2(served.version, served.speculation)
    if lacking and not served.runner_asked:
        yield printer(
            places.FALLBACK,
            f"Model Runner V2 does not yet support {lacking}; using the V1 model runner instead.",
            "WARNING",
        )


def _scheduling(printer: Printer, served: Served) -> Iterator[str]:
    """Give what is said of asynchronous scheduling. Only 0.23 tells what it came to."""
    why = _why_synchronous(served)
    if why and not served.async_asked:
        yield printer(places.ASYNC_OFF, f"Async scheduling {why} and will be disabled.", "WARNING")
    if served.version == "0.23.0":
        state = "enabled" if served.async_scheduling else "disabled"
        yield printer(places.ASYNC, f"Asynchronous scheduling is {state}.")


def _why_synchronous(served: Served) -> str | None:
    if served.speculation is None:
        return None
    if served.method not in ASYNCHRONOUS[served.version]:
        return f"not supported with {served.method}-based speculative decoding"
    if served.speculation.get("disable_padded_drafter_batch"):
        return "is not compatible with disable_padded_drafter_batch=True"
    return None


def _eager(version: Version) -> str:
    switched = (
        "torch.compile and CUDAGraphs. This is equivalent to setting -cc.mode=none "
        "-cc.cudagraph_mode=none"
        if version == "0.23.0"
        else "torch.compile, CUDAGraphs, and JIT kernel warmup. This is equivalent to setting "
        "-cc.mode=none -cc.cudagraph_mode=none and --kernel_config.enable_jit_warmup=False"
    )
    return f"Enforce eager set, disabling {switched}"


def _loading(worker: Printer, served: Served, times: LaunchTimes) -> Iterator[str]:
    v2 = served.model_runner == "V2"
    if v2:
        yield worker(places.RUNNER, "Using V2 Model Runner")
        yield worker(places.LOADING_V2, "Loading model from scratch...")
    else:
        if served.speculation:
            yield worker(
                places.REQUEST_OPTIONS,
                "min_p and logit_bias parameters won't work with speculative decoding.",
                "WARNING",
            )
        yield worker(places.LOADING_V1, f"Starting to load model {served.model}...")
    yield worker(
        places.ATTENTION,
        f"Using FLASH_ATTN attention backend out of potential backends: {BACKENDS}.",
    )
    if served.speculation and not v2:
        yield worker(places.DRAFTER, "Loading drafter model...")
    size = round(served.model_memory_gib, 2)
    word = "" if v2 and served.version == "0.23.0" else " memory"
    yield worker(
        places.LOADED_V2 if v2 else places.LOADED_V1,
        f"Model loading took {size} GiB{word} and {times.load_s:.6f} seconds",
    )
    if not served.enforce_eager:
        yield from _compiling(worker, served, times.compile_s)


def _compiling(worker: Printer, served: Served, compile_s: float) -> Iterator[str]:
    """Give the compilation of the target, and of the drafter where a model drafts."""
    models = 1 if drafter(served.speculation, served.model) is None else 2
    for _ in range(models):
        took = f"{compile_s / models:.2f} s"
        compiled = f"compile range (1, {served.max_num_batched_tokens})"
        yield worker(places.GRAPH, f"Compiling a graph for {compiled} takes {took}")
        yield worker(places.COMPILED, f"torch.compile took {took} in total")


def _caching(worker: Printer, core: Printer, served: Served) -> Iterator[str]:
    memory = round(served.kv_cache_gib, 2)
    yield worker(places.MEMORY, f"Available KV cache memory: {memory} GiB")
    size = f"GPU KV cache size: {served.kv_cache_tokens:,} tokens"
    most = (
        f"Maximum concurrency for {served.max_model_len:,} tokens per request: "
        f"{served.kv_cache_tokens / served.max_model_len:.2f}x"
    )
    if served.version == "0.23.0":
        yield core(places.CACHE, size)
        yield core(places.CONCURRENCY, most)
    else:
        yield core(places.CACHE, f"{size}, {most}")


def _capturing(worker: Printer, served: Served) -> Iterator[str]:
    count = len(captured_sizes(served))
    if not count:
        return
    v2 = served.model_runner == "V2"
    kinds = ("PIECEWISE", "FULL") if v2 else ("mixed prefill-decode, PIECEWISE", "decode, FULL")
    for kind in kinds:
        yield worker.bare(f"Capturing CUDA graphs ({kind}): 100%|██████████| {count}/{count}")
    if v2 and served.method in ("eagle", "eagle3", "mtp"):
        yield worker(places.SPECULATOR, "Capturing model for speculator...")
    captured = places.CAPTURED_V2 if v2 else places.CAPTURED_V1
    yield worker(captured, "Graph capturing finished in 0 secs, took 0.00 GiB")


def _worker(served: Served) -> str:
    """Give the name of the first worker; with one GPU an engine, it is the engine itself."""
    if served.tensor_parallel == 1:
        return "EngineCore" if served.data_parallel == 1 else "EngineCore_DP0"
    rank = "_DP0" if served.data_parallel > 1 else ""
    return f"Worker{rank}_TP0"


def _config(served: Served) -> str:
    """Give the engine's configuration as it prints itself, up to the compilation."""
    speculation = "None"
    if served.speculation:
        speculation = (
            f"SpeculativeConfig(method={served.method!r}, "
            f"model={drafter(served.speculation, served.model)!r}, "
            f"num_spec_tokens={served.depth})"
        )
    eager = served.enforce_eager
    mode = "<CompilationMode.NONE: 0>" if eager else "<CompilationMode.VLLM_COMPILE: 3>"
    graphs = "<CUDAGraphMode.NONE: 0>" if eager else "<CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>"
    sizes = list(capture_sizes(served))
    told = {
        "model": repr(served.model),
        "speculative_config": speculation,
        "tokenizer": repr(served.model),
        "skip_tokenizer_init": False,
        "tokenizer_mode": "auto",
        "revision": None,
        "tokenizer_revision": None,
        "trust_remote_code": False,
        "dtype": "torch.bfloat16",
        "max_seq_len": served.max_model_len,
        "download_dir": None,
        "load_format": "auto",
        "tensor_parallel_size": served.tensor_parallel,
        "pipeline_parallel_size": 1,
        "data_parallel_size": served.data_parallel,
        "quantization": None,
        "enforce_eager": eager,
        "kv_cache_dtype": "auto",
        "device_config": "cuda",
        "observability_config": _observability(served),
        "seed": 0,
        "served_model_name": served.name,
        "enable_prefix_caching": served.prefix_caching,
        "enable_chunked_prefill": True,
        "pooler_config": None,
        "compilation_config": f"{{'mode': {mode}, 'cudagraph_mode': {graphs}, "
        f"'cudagraph_capture_sizes': {sizes}, "
        f"'max_cudagraph_capture_size': {max(sizes, default=0)}}}",
    }
    return ", ".join(f"{name}={value}" for name, value in told.items())


def _observability(served: Served) -> str:
    """Give the part of the configuration that tells of request metrics, which 0.23 lacks."""
    told: dict[str, str | bool | None] = {
        "show_hidden_metrics_for_version": None,
        "otlp_traces_endpoint": None,
        "collect_detailed_traces": None,
        "per_request_spec_decode_metrics": served.request_metrics,
        "kv_cache_metrics": False,
        "cudagraph_metrics": False,
    }
    if served.version == "0.23.0":
        del told["per_request_spec_decode_metrics"]
    return f"ObservabilityConfig({', '.join(f'{name}={value!r}' for name, value in told.items())})"
