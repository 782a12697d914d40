"""An experiment to what will be done, in order: deployments with exact commands, and their cells.

Pure: it starts and writes nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import attrs

from specbench.engines.contract import Engine
from specbench.engines.known import ENGINES
from specbench.equalising import left_unequal, twin
from specbench.errors import ExperimentError, Problem
from specbench.experiment.model import (
    REPEAT_SUFFIX,
    Arm,
    AttachedServer,
    AttachLauncher,
    Experiment,
    Target,
)
from specbench.experiment.read import ReadExperiment
from specbench.experiment.rules import known_refusals, require_comparison
from specbench.methods import Command, Confound, Counting, Expected, Launch, Method
from specbench.order import arm_order, shuffled_cells
from specbench.planned_cell import PlannedCell, mean_max_tokens, planned_cells, warm_up_requests

Role = Literal["baseline", "noise_floor", "equalised", "arm"]


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
    twin: str | None = None
    """The baseline with this arm's settings, where there is one: its equalised denominator."""


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
    if experiment.design.equalise:
        arms = _with_twins(read, engine, arms)
        notes += _left_unequal(arms, engine)
    refused = {arm.name: arm.unservable for arm in arms if arm.role in ("baseline", "arm")}
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


def _with_twins(
    read: ReadExperiment, engine: Engine, arms: Sequence[PlannedArm]
) -> tuple[PlannedArm, ...]:
    """Give the arms with a twin of the baseline for each distinct set of confounds, after it."""
    baseline = next(arm for arm in arms if arm.role == "baseline")
    twins: dict[str, PlannedArm] = {}
    named = []
    for arm in arms:
        twinned = arm.role == "arm" and not arm.unservable
        found = twin(baseline.name, arm.confounds, engine) if twinned else None
        named.append(attrs.evolve(arm, twin=found.name if found else None))
        if found is not None:
            properties = {**baseline.expected.properties, **found.properties}
            twins[found.name] = attrs.evolve(
                baseline,
                name=found.name,
                role="equalised",
                command=engine.command(
                    _target(read.experiment, engine), found.launch, _python(read.experiment)
                ),
                expected=attrs.evolve(baseline.expected, properties=properties),
                confounds=(),
            )
    taken = [name for name in twins if name in {arm.name for arm in arms}]
    if taken:
        said = f"the baseline's twin would be named {taken[0]!r}, as an arm is"
        raise ExperimentError([Problem(said, "rename the arm", str(read.path))])
    after = 1 + max(i for i, arm in enumerate(named) if arm.role in ("baseline", "noise_floor"))
    return (*named[:after], *twins.values(), *named[after:])


def _left_unequal(arms: Sequence[PlannedArm], engine: Engine) -> Iterator[str]:
    for arm in arms:
        left = left_unequal(arm.confounds, engine)
        if left:
            yield (
                f"arm {arm.name!r}: {', '.join(left)} cannot be set on the baseline before the "
                "launch, and stay confounds of both comparisons"
            )


def _python(experiment: Experiment) -> str:
    return experiment.launcher.python or sys.executable


def _target(experiment: Experiment, engine: Engine) -> Target:
    """Give the target as it is launched: without a prefix cache where that is the policy."""
    target = experiment.target
    if experiment.prefix_cache != "off":
        return target
    return attrs.evolve(target, flags={**target.flags, **engine.without_prefix_cache})


def _planned_arm(read: ReadExperiment, engine: Engine, arm: Arm, method: Method[Any]) -> PlannedArm:
    experiment = read.experiment
    options, target = arm.options, _target(experiment, engine)
    expected = method.expected(options, target)
    properties = {"tensor_parallel": str(target.tensor_parallel), **expected.properties}
    return PlannedArm(
        name=arm.name,
        role="baseline" if arm is experiment.baseline() else "arm",
        arm=arm,
        command=engine.command(target, _launch(read, engine, arm, method), _python(experiment)),
        expected=attrs.evolve(expected, properties=properties),
        counting=method.counting(options, target),
        confounds=method.confounds(options, target),
        caveats=method.caveats(options),
        assets=method.assets(options),
        attached=_attached(read, arm.name),
        unservable=known_refusals(arm, method, target),
    )


def _launch(read: ReadExperiment, engine: Engine, arm: Arm, method: Method[Any]) -> Launch:
    """Give what an arm adds to the launch; a speculative one also tells of single requests."""
    experiment = read.experiment
    launch = method.launch(arm.options, experiment.target)
    if not (experiment.per_request_metrics and launch.speculation):
        return launch
    more = engine.per_request_metrics(experiment.target)
    return attrs.evolve(launch, arguments=(*launch.arguments, *(more.arguments if more else ())))


def _attached(read: ReadExperiment, name: str) -> AttachedServer | None:
    launcher = read.experiment.launcher
    return launcher.servers[name] if isinstance(launcher, AttachLauncher) else None
