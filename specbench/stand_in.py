"""What of a target the simulated server can stand for, arm by arm. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from specbench.engines.simulated import faults
from specbench.engines.simulated.arguments import Configured, arguments, configured
from specbench.engines.simulated.engine import SimulatedEngine
from specbench.engines.simulated.presets import DEFAULT_PRESET, PRESETS
from specbench.engines.simulated.served import Version
from specbench.errors import ExperimentError, Problem
from specbench.experiment.model import Flag
from specbench.methods import Launch, Method
from specbench.plan import Plan, PlannedArm

NUMBERS: Mapping[str, Callable[[str], int | float]] = {
    "max-num-seqs": int,
    "max-num-batched-tokens": int,
    "gpu-memory-utilization": float,
}
SWITCHES = ("async-scheduling", "enable-prefix-caching")
"""With those above the flags of a real vLLM that change what is simulated."""
NOT_PLAYED = ("data-parallel-size", "fault", "lossiness", "noise-nats", "noise-seed")
"""Flags of the simulated server that virtual time leaves out: it plays one engine without fault."""


class StandIn:
    """The simulated server that an arm's launch comes to."""

    def __init__(
        self, planned: Plan, methods: Mapping[str, Method[Any]], preset: str | None
    ) -> None:
        self._methods = methods
        self._simulated = planned.engine.simulated
        self._target = target = planned.read.experiment.target
        own = str(target.flags.get("preset", DEFAULT_PRESET)) if self._simulated else DEFAULT_PRESET
        name = preset or own
        if name not in PRESETS:
            known = ", ".join(PRESETS)
            raise ExperimentError([Problem(f"there is no preset {name!r}", f"one of: {known}")])
        self.preset = PRESETS[name]
        old = (target.version or "").startswith("0.23")
        self.shapes: Version = "0.23.0" if old else "0.32.0"
        self._flags: dict[str, Flag] = {}
        self._left_out = []
        for flag, value in target.flags.items():
            taken = _own(flag, value) if self._simulated else _of_vllm(flag, value)
            self._flags |= taken
            self._left_out += [] if taken else [flag]
        self._flags["preset"] = name

    def configured(self, arm: PlannedArm) -> Configured:
        """Decide as vLLM would about an arm."""
        launch = self._methods[arm.arm.method].launch(arm.arm.options, self._target)
        command = SimulatedEngine().command(
            attrs.evolve(self._target, version=self.shapes, flags=self._flags),
            Launch(
                speculation=launch.speculation,
                arguments=launch.arguments if self._simulated else (),
            ),
            "",
        )
        _, _, _, *argv = command.filled(port=0, scratch="").argv
        return configured(arguments(argv), {**arm.command.environment, faults.ENVIRONMENT: ""})

    def notes(self) -> Iterator[str]:
        """Give what a reader must know of the likeness."""
        preset, target = self.preset, self._target
        if not self._simulated:
            yield f"preset {preset.name} stands in for {target.model}: {preset.stands_for}"
        if preset.estimate:
            yield f"preset {preset.name} is an estimate: no launch was fitted"
        if preset.gpus != target.tensor_parallel:
            yield (
                f"GPUs of preset {preset.name}: {preset.gpus}; target.tensor_parallel is "
                f"{target.tensor_parallel}, and the times are the preset's all the same"
            )
        if not (target.version or self.shapes).startswith(self.shapes[:4]):
            yield f"vLLM {target.version} is played as {self.shapes}"
        if self._left_out:
            yield f"flags that are not simulated: {', '.join(self._left_out)}"


def _own(flag: str, value: Flag) -> dict[str, Flag]:
    return {} if flag in NOT_PLAYED else {flag: value}


def _of_vllm(flag: str, value: Flag) -> dict[str, Flag]:
    """Give a flag of a real vLLM as the simulated server has it, or nothing."""
    plain = flag.replace("_", "-")
    switch = plain.removeprefix("no-")
    if switch in SWITCHES and isinstance(value, bool):
        return {switch: value is (switch == plain)}
    try:
        return {plain: NUMBERS[plain](str(value))} if plain in NUMBERS else {}
    except ValueError:
        # vLLM also reads 8k.
        return {}
