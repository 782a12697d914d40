"""The simulated server's command line, and the configuration that it comes to."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from specbench.engines.simulated import faults
from specbench.engines.simulated.defaults import Decided, Place, decide
from specbench.engines.simulated.drafting import drafting
from specbench.engines.simulated.faults import Faults
from specbench.engines.simulated.player import Player
from specbench.engines.simulated.presets import DEFAULT_PRESET, GIB, PRESETS, Preset
from specbench.engines.simulated.scheduler import Rules
from specbench.engines.simulated.script import BLOCK_TOKENS
from specbench.engines.simulated.served import VERSIONS, Served
from specbench.engines.simulated.speculative_config import method_of
from specbench.engines.simulated.text import Deviation
from specbench.engines.vllm import fields

COUNTS = ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "data_parallel_size")
TOO_LITTLE_KV = (
    "ValueError: To serve at least one request with the models's max seq len ({longest}), "
    "({needed:.2f} GiB KV cache is needed, which is larger than the available KV cache memory "
    "({held:.2f} GiB). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when "
    "initializing the engine."
)


@attrs.frozen(kw_only=True)
class Configured:
    """A launch that was understood, whether or not it succeeds."""

    served: Served
    preset: Preset
    host: str
    port: int
    speed: float
    seed: int
    deviation: Deviation
    faults: Faults
    asked: Mapping[str, Any]
    """Arguments that are no defaults, as vLLM's log lists them."""
    refusal: str | None
    refused_in: Place | None

    def rules(self) -> Rules:
        """Give the scheduler's limits."""
        return Rules(
            drafting=drafting(self.served.speculation, self.preset.chains),
            max_num_seqs=self.served.max_num_seqs,
            max_scheduled_tokens=self.served.max_num_scheduled_tokens,
            kv_blocks=self.served.kv_cache_tokens // BLOCK_TOKENS,
        )

    def player(self) -> Player:
        """Give what plays it."""
        served = self.served
        return Player(
            served,
            self.preset,
            self.rules(),
            self.preset.cost(
                method=served.method, async_scheduling=served.async_scheduling, speed=self.speed
            ),
            faults=self.faults,
            seed=self.seed,
            deviation=self.deviation,
        )


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the command line: vLLM's names, and a few of our own at the end."""
    parser = argparse.ArgumentParser(prog="simulated", allow_abbrev=False)
    parser.add_argument("--model", required=True)
    parser.add_argument("--served-model-name", default="target")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--tensor-parallel-size", type=int, default=1)
    parser.add_argument("--data-parallel-size", type=int, default=1)
    parser.add_argument("--max-model-len", type=int, default=32_768)
    parser.add_argument("--max-num-seqs", type=int, default=1024)
    parser.add_argument("--max-num-batched-tokens", type=int, default=8192)
    parser.add_argument("--gpu-memory-utilization", type=float, default=0.9)
    parser.add_argument(
        "--enable-prefix-caching", action=argparse.BooleanOptionalAction, default=True
    )
    parser.add_argument("--enforce-eager", action=argparse.BooleanOptionalAction, default=False)
    parser.add_argument("--async-scheduling", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--reasoning-parser")
    parser.add_argument(
        "--per-request-spec-decode-metrics", choices=("none", "summary", "detailed"), default="none"
    )
    parser.add_argument("--speculative-config", type=json.loads)
    parser.add_argument("--seed", type=int, default=0)
    own = parser.add_argument_group("of the simulation")
    own.add_argument("--shapes", choices=VERSIONS, default=VERSIONS[-1])
    own.add_argument("--preset", choices=tuple(PRESETS), default=DEFAULT_PRESET)
    own.add_argument("--speed", type=float, default=1.0)
    own.add_argument("--noise-nats", type=float, default=0.0)
    own.add_argument("--noise-seed", default=None)
    own.add_argument("--lossiness", type=float, default=0.0)
    own.add_argument("--fault", nargs="*", default=())
    return parser.parse_args(argv)


def configured(asked: argparse.Namespace, environment: Mapping[str, str]) -> Configured:
    """Decide as vLLM of that version would.

    Raises:
        ValueError: A fault or the speculative configuration is none.
    """
    speculation = asked.speculative_config
    if speculation is not None and not isinstance(speculation, dict):
        raise ValueError(f"--speculative-config must be a JSON object, not {speculation!r}")
    preset = PRESETS[asked.preset]
    method = method_of(speculation) if speculation else "none"
    decided = decide(
        version=asked.shapes,
        # What no vLLM has is nothing that vLLM would refuse or bend.
        speculation=speculation if method in fields.METHODS else None,
        tensor_parallel=asked.tensor_parallel_size,
        max_num_seqs=asked.max_num_seqs,
        max_num_batched_tokens=asked.max_num_batched_tokens,
        async_scheduling=asked.async_scheduling,
        request_metrics=asked.per_request_spec_decode_metrics,
        environment=environment,
    )
    shown = faults.parse((*asked.fault, environment.get(faults.ENVIRONMENT, "")), method)
    served = _served(asked, decided, preset, method, shown)
    refusal, place = decided.refusal, decided.refused_in
    if nothing := [name for name in COUNTS if getattr(asked, name) < 1]:
        flag = nothing[0].replace("_", "-")
        refusal, place = f"simulated: error: argument --{flag}: must be 1 or more", "arguments"
    elif refusal is None and shown.refuse_launch:
        refusal, place = faults.OUT_OF_MEMORY, "worker"
    elif refusal is None and served.kv_cache_tokens < served.max_model_len:
        per_token = served.kv_cache_gib / max(served.kv_cache_tokens, 1)
        refusal, place = (
            TOO_LITTLE_KV.format(
                longest=served.max_model_len,
                needed=per_token * served.max_model_len,
                held=served.kv_cache_gib,
            ),
            "worker",
        )
    return Configured(
        served=served,
        preset=preset,
        host=asked.host,
        port=asked.port,
        speed=asked.speed,
        seed=asked.seed,
        deviation=Deviation(
            noise_nats=asked.noise_nats,
            # A lossy verifier swaps tokens; without drafts there is nothing to verify.
            swaps=asked.lossiness if speculation else 0.0,
            seed=os.urandom(8).hex() if asked.noise_seed is None else str(asked.noise_seed),
        ),
        faults=shown,
        asked=_asked(asked),
        refusal=refusal,
        refused_in=place,
    )


def _served(
    asked: argparse.Namespace, decided: Decided, preset: Preset, method: str, shown: Faults
) -> Served:
    utilization = asked.gpu_memory_utilization
    kv_tokens = int(shown.kv_tokens) // BLOCK_TOKENS * BLOCK_TOKENS or max(
        preset.kv_tokens(method, utilization), 0
    )
    return Served(
        version=asked.shapes,
        preset=preset.name,
        model=asked.model,
        name=asked.served_model_name,
        tensor_parallel=asked.tensor_parallel_size,
        data_parallel=asked.data_parallel_size,
        max_model_len=asked.max_model_len,
        max_num_seqs=asked.max_num_seqs,
        max_num_batched_tokens=asked.max_num_batched_tokens,
        max_num_scheduled_tokens=decided.max_num_scheduled_tokens,
        gpu_memory_utilization=utilization,
        prefix_caching=asked.enable_prefix_caching,
        enforce_eager=asked.enforce_eager,
        async_scheduling=decided.async_scheduling,
        model_runner=decided.model_runner,
        kv_cache_tokens=kv_tokens,
        kv_cache_gib=preset.kv_bytes(method, utilization) / GIB,
        model_memory_gib=preset.model_bytes(method) / GIB,
        speculation=asked.speculative_config,
        request_metrics=asked.per_request_spec_decode_metrics,
        reasoning=asked.reasoning_parser is not None,
        async_asked=asked.async_scheduling is not None,
        runner_asked=decided.runner_asked,
    )


def _asked(asked: argparse.Namespace) -> dict[str, Any]:
    plain = arguments(["--model", ""])
    return {name: value for name, value in vars(asked).items() if value != getattr(plain, name)}
