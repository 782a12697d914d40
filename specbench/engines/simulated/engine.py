"""The engine `simulated`: vLLM's argv, log, configuration and counters over a cost model."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from specbench.engines.simulated import faults
from specbench.engines.simulated.presets import DEFAULT_PRESET, PRESETS
from specbench.engines.simulated.served import VERSIONS
from specbench.engines.vllm import fields, refusals
from specbench.engines.vllm.engine import NAMES, VllmEngine
from specbench.errors import Problem
from specbench.experiment.model import Target
from specbench.facts import CounterNames
from specbench.methods import Command, Launch

KNOWN_FLAGS = (
    "async-scheduling",
    "data-parallel-size",
    "enable-prefix-caching",
    "enforce-eager",
    "fault",
    "gpu-memory-utilization",
    "lossiness",
    "max-num-batched-tokens",
    "max-num-seqs",
    "noise-nats",
    "noise-seed",
    "per-request-spec-decode-metrics",
    "preset",
    "reasoning-parser",
    "seed",
    "speed",
)
"""vLLM's flags that the simulated server heeds, and its own (docs/simulated.md)."""


class SimulatedEngine(VllmEngine):
    """A real HTTP server whose truth is known. Its numbers are marked SIMULATED everywhere."""

    name = "simulated"
    simulated = True
    distributions = ()
    newest = VERSIONS[-1]

    def check(self, target: Target, launch: Launch) -> tuple[Problem, ...]:
        """Refuse what the simulated server does not have; tell what vLLM of its shape refuses.

        A method that no vLLM has is served all the same: its author's fork may have it.
        """
        problems = tuple(_problems(target))
        if problems:
            return problems
        if launch.speculation and launch.speculation.get("method") not in fields.METHODS:
            return ()
        shaped = attrs.evolve(target, version=target.version or self.newest, flags={})
        return tuple(refusals.problems(shaped, launch))

    def command(self, target: Target, launch: Launch, python: str) -> Command:
        """Give `python -m specbench.engines.simulated.server ...`."""
        argv = (python, "-m", "specbench.engines.simulated.server")
        shapes = ("--shapes", target.version or self.newest)
        return Command(
            argv=(*argv, *self.arguments(target, launch), *shapes),
            environment={**target.env, **launch.environment},
        )

    def counters(self) -> CounterNames:
        """Give vLLM's names, and those by which the server tells its own lateness."""
        return attrs.evolve(
            NAMES, played_steps="simulated:steps_total", late_steps="simulated:late_steps_total"
        )


def _problems(target: Target) -> Iterator[Problem]:
    for flag in target.flags:
        if flag not in KNOWN_FLAGS:
            known = ", ".join(KNOWN_FLAGS)
            yield Problem(f"the simulated engine has no flag {flag!r}", f"one of: {known}")
    if target.version not in (None, *VERSIONS):
        yield Problem(
            f"the simulated engine does not speak vLLM {target.version}",
            f"one of: {', '.join(VERSIONS)}",
        )
    name = str(target.flags.get("preset", DEFAULT_PRESET))
    preset = PRESETS.get(name)
    if preset is None:
        yield Problem(f"no preset {name!r}", f"one of: {', '.join(PRESETS)}")
    elif preset.gpus != target.tensor_parallel:
        yield Problem(
            f"preset {name!r} stands for {preset.gpus} GPUs, not {target.tensor_parallel}",
            f"write target.tensor_parallel: {preset.gpus}",
        )
    asked = target.flags.get("fault", ())
    texts = asked if isinstance(asked, tuple) else (asked,)
    try:
        faults.parse((*map(str, texts), target.env.get(faults.ENVIRONMENT, "")), "none")
    except ValueError as error:
        yield Problem(str(error))
