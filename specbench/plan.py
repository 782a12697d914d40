"""An experiment to what will be done, in order: deployments with exact commands, and their cells.

Pure: it starts and writes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import attrs

from specbench.engines import ENGINES
from specbench.engines.contract import Engine
from specbench.errors import ExperimentError, Problem
from specbench.experiment.model import (
    REPEAT_SUFFIX,
    Arm,
    AttachedServer,
    AttachLauncher,
)
from specbench.experiment.read import ReadExperiment
from specbench.experiment.rules import known_refusals, require_comparison
from specbench.methods import Command, Confound, Counting, Expected, Method
from specbench.order import arm_order, shuffled_cells
from specbench.planned_cell import PlannedCell, mean_max_tokens, planned_cells, warm_up_requests

Role = Literal["baseline", "noise_floor", "arm"]


@attrs.frozen(kw_only=True)
class PlannedArm:
    """An arm as it is launched, with what its method says of it."""

    name: str
    role: Role
    arm: Arm
    command: Command
    expected: Expected
    counting: Counting | None
    confounds: tuple[Confound, ...]
    caveats: tuple[str, ...]
    assets: tuple[str, ...]
    attached: AttachedServer | None
    """The server that runs already; None when we launch it."""
    unservable: tuple[str, ...]
    """Why the engine's version is known to refuse it, each reason with its source."""


@attrs.frozen(kw_only=True)
class PlannedDeployment:
    """One server to launch from nothing."""

    block: int
    place: int
    arm: PlannedArm
    cells: tuple[PlannedCell, ...]
    """In the order of this block."""

    @property
    def name(self) -> str:
        """Its folder's name, without the attempt."""
        return f"b{self.block:02d}-{self.place:02d}-{self.arm.name}"


@attrs.frozen(kw_only=True)
class Plan:
    """Everything that a run does."""

    read: ReadExperiment
    engine: Engine
    arms: tuple[PlannedArm, ...]
    deployments: tuple[PlannedDeployment, ...]
    notes: tuple[str, ...]
    rehearsal: bool = False
    """A trial of a few cells, kept apart and never pooled."""

    def launched(self) -> tuple[PlannedArm, ...]:
        """Give the arms that have a deployment, in the order of the experiment."""
        names = {deployment.arm.name for deployment in self.deployments}
        return tuple(arm for arm in self.arms if arm.name in names)


@attrs.frozen(kw_only=True)
class Estimate:
    """What a plan may take, and on what that rests."""

    seconds: float
    assumption: str


def plan(
    read: ReadExperiment,
    methods: Mapping[str, Method[Any]],
    *,
    blocks: int | None = None,
    engine_version: str | None = None,
    launch_unservable: bool = False,
) -> Plan:
    """Give the plan of an experiment. `blocks` overrides the design's number.

    Unservable arms have no deployment, unless `launch_unservable` asks for them.

    Raises:
        ExperimentError: What the engine's version is known to refuse leaves nothing to compare.
    """
    experiment = read.experiment
    engine = ENGINES[experiment.target.engine]
    target = experiment.target
    notes: list[str] = []
    if target.version is None and engine_version is not None:
        target = attrs.evolve(target, version=engine_version)
    elif target.version is None and not engine.simulated:
        notes.append(
            f"the version of {engine.name} is not known here: planned for {engine.newest}, the "
            "newest that this specbench knows"
        )
    read = attrs.evolve(read, experiment=attrs.evolve(experiment, target=target))
    arms = tuple(_planned_arms(read, engine, methods))
    refused = {arm.name: arm.unservable for arm in arms if arm.role != "noise_floor"}
    baseline, where = experiment.baseline().name, str(read.path)
    require_comparison(refused, baseline, where, launch_unservable=launch_unservable)
    return Plan(
        read=read,
        engine=engine,
        arms=arms,
        deployments=tuple(_deployments(read, arms, blocks, launch_unservable=launch_unservable)),
        notes=tuple(notes),
    )


def rehearsal(planned: Plan, arm: str, cells: int) -> Plan:
    """Give the plan of a trial: one deployment of one arm and its first cells.

    Raises:
        ExperimentError: There is no such arm.
    """
    chosen = [item for item in planned.deployments if item.arm.name == arm]
    if not chosen:
        known = ", ".join(item.name for item in planned.launched())
        raise ExperimentError([Problem(f"no arm {arm!r} to rehearse", f"one of: {known}")])
    first = attrs.evolve(chosen[0], cells=chosen[0].cells[:cells])
    return attrs.evolve(planned, deployments=(first,), rehearsal=True)


def estimate(planned: Plan) -> Estimate:
    """Give a rough duration from assumed launch and token times, which are told."""
    simulated = planned.engine.simulated
    launch_s, token_s = (1.0, 0.004) if simulated else (60.0, 0.012)
    total = 0.0
    for deployment in planned.deployments:
        total += launch_s
        for cell in deployment.cells:
            tokens = mean_max_tokens(planned.read, cell.stratum)
            wave = warm_up_requests(planned.read.experiment.load, cell)
            if cell.concurrency is None:
                # Arrivals take their time, then the last answer its own.
                each_s = 1 / (cell.arrival_rate or 1)
                total += (cell.requests + 2 * wave) * each_s + 3 * tokens * token_s
            else:
                total += (cell.requests + 2 * wave) / cell.concurrency * tokens * token_s
    return Estimate(
        seconds=total,
        assumption=f"{launch_s:g} s a launch and {token_s * 1000:g} ms a token at every load",
    )


def _deployments(
    read: ReadExperiment,
    arms: Sequence[PlannedArm],
    blocks: int | None,
    *,
    launch_unservable: bool,
) -> Iterator[PlannedDeployment]:
    """Give every deployment, block after block.

    Unservable arms come last in a block: asking for them moves no other arm, so that a run can go
    on with or without them, and a launch that is bound to fail balances nothing.
    """
    design, cells = read.experiment.design, planned_cells(read)
    served = [arm for arm in arms if not arm.unservable]
    asked = [arm for arm in arms if arm.unservable and launch_unservable]
    order = arm_order(len(served), design.order, design.seed)
    for block in range(1, (blocks or design.blocks) + 1):
        chosen = [*(served[index] for index in order(block)), *asked]
        for place, arm in enumerate(chosen, start=1):
            ordered = shuffled_cells(cells, design.seed, block)
            yield PlannedDeployment(block=block, place=place, arm=arm, cells=ordered)


def _planned_arms(
    read: ReadExperiment, engine: Engine, methods: Mapping[str, Method[Any]]
) -> Iterator[PlannedArm]:
    """Give every arm, and the baseline's repeat right after it where there is a noise floor."""
    experiment = read.experiment
    for arm in experiment.arms:
        planned = _planned_arm(read, engine, arm, methods[arm.method])
        yield planned
        if planned.role == "baseline" and experiment.design.noise_floor:
            name = f"{arm.name}{REPEAT_SUFFIX}"
            yield attrs.evolve(
                planned, name=name, role="noise_floor", attached=_attached(read, name)
            )


def _planned_arm(read: ReadExperiment, engine: Engine, arm: Arm, method: Method[Any]) -> PlannedArm:
    experiment = read.experiment
    options, target = arm.options, experiment.target
    python = experiment.launcher.python or sys.executable
    if experiment.prefix_cache == "off":
        target = attrs.evolve(target, flags={**target.flags, **engine.without_prefix_cache})
    return PlannedArm(
        name=arm.name,
        role="baseline" if arm is experiment.baseline() else "arm",
        arm=arm,
        command=engine.command(target, method.launch(options, target), python),
        expected=method.expected(options, target),
        counting=method.counting(options, target),
        confounds=method.confounds(options, target),
        caveats=method.caveats(options),
        assets=method.assets(options),
        attached=_attached(read, arm.name),
        unservable=known_refusals(arm, method, target),
    )


def _attached(read: ReadExperiment, name: str) -> AttachedServer | None:
    launcher = read.experiment.launcher
    return launcher.servers[name] if isinstance(launcher, AttachLauncher) else None
