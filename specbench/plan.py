"""An experiment to what will be done, in order: deployments with exact commands, and their cells.

Pure: it starts and writes nothing.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import attrs

from specbench.engines import ENGINES
from specbench.engines.contract import Engine
from specbench.experiment.model import REPEAT_SUFFIX, Arm, Sampling
from specbench.experiment.read import ReadExperiment
from specbench.methods import Command, Confound, Counting, Expected, Method

Role = Literal["baseline", "noise_floor", "arm"]
LEAST_REQUESTS = 64
REQUESTS_PER_STREAM = 10


@attrs.frozen(kw_only=True)
class PlannedCell:
    """One measured window to come."""

    stratum: str
    sampling: Sampling
    concurrency: int
    requests: int

    @property
    def name(self) -> str:
        """Its folder's name."""
        return f"{self.stratum}-{self.sampling.name}-c{self.concurrency}"


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
) -> Plan:
    """Give the plan of an experiment. `blocks` overrides the design's number."""
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
    cells = _cells(read)
    order = _orders(len(arms), experiment.design.order, experiment.design.seed)
    deployments = [
        PlannedDeployment(
            block=block,
            place=place,
            arm=arms[chosen],
            cells=_permuted(cells, experiment.design.seed, block),
        )
        for block in range(1, (blocks or experiment.design.blocks) + 1)
        for place, chosen in enumerate(order(block), start=1)
    ]
    return Plan(
        read=read,
        engine=engine,
        arms=arms,
        deployments=tuple(deployments),
        notes=tuple(notes),
    )


def estimate(planned: Plan) -> Estimate:
    """Give a rough duration from assumed launch and token times, which are told."""
    simulated = planned.engine.simulated
    launch_s, token_s = (1.0, 0.004) if simulated else (60.0, 0.012)
    total = 0.0
    for deployment in planned.deployments:
        total += launch_s
        for cell in deployment.cells:
            prompts = planned.read.prompts(cell.stratum)
            tokens = sum(prompt.max_tokens for prompt in prompts) / len(prompts)
            warm = 2 * max(2 * cell.concurrency, planned.read.experiment.load.closed.warmup)
            total += (cell.requests + warm) / cell.concurrency * tokens * token_s
    return Estimate(
        seconds=total,
        assumption=f"{launch_s:g} s a launch and {token_s * 1000:g} ms a token at every load",
    )


def requests_of_cell(read: ReadExperiment, stratum: str, concurrency: int) -> int:
    """Give the requests of a cell: as asked, or whole passes over the stratum's prompts."""
    asked = read.experiment.load.closed.requests.get(concurrency)
    if asked is not None:
        return asked
    size = len(read.prompts(stratum))
    least = max(LEAST_REQUESTS, REQUESTS_PER_STREAM * concurrency)
    return math.ceil(least / size) * size


def williams_square(size: int) -> list[list[int]]:
    """Give rows in which every item follows every other equally often.

    `size` rows for an even size, twice as many for an odd one (Williams 1949).
    """
    first = [0] + [(n + 1) // 2 if n % 2 else size - n // 2 for n in range(1, size)]
    rows = [[(item + shift) % size for item in first] for shift in range(size)]
    return rows + [row[::-1] for row in rows] if size % 2 else rows


def _orders(size: int, kind: str, seed: int) -> Callable[[int], list[int]]:
    """Give the function from a block's number to the order of its arms."""
    if kind == "random":
        return lambda block: _rng(seed, "order", block).sample(range(size), size)
    chance = _rng(seed, "order")
    rows = williams_square(size)
    chance.shuffle(rows)
    names = chance.sample(range(size), size)
    return lambda block: [names[item] for item in rows[(block - 1) % len(rows)]]


def _cells(read: ReadExperiment) -> tuple[PlannedCell, ...]:
    experiment = read.experiment
    return tuple(
        PlannedCell(
            stratum=stratum,
            sampling=sampling,
            concurrency=concurrency,
            requests=requests_of_cell(read, stratum, concurrency),
        )
        for stratum in read.strata()
        for sampling in experiment.sampling
        for concurrency in experiment.load.closed.concurrency
    )


def _permuted(cells: Sequence[PlannedCell], seed: int, block: int) -> tuple[PlannedCell, ...]:
    return tuple(_rng(seed, "cells", block).sample(list(cells), len(cells)))


def _rng(*parts: object) -> random.Random:
    return random.Random("/".join(map(str, parts)))  # noqa: S311 - orders are no secret


def _planned_arms(
    read: ReadExperiment, engine: Engine, methods: Mapping[str, Method[Any]]
) -> Iterator[PlannedArm]:
    """Give every arm, and the baseline's repeat right after it where there is a noise floor."""
    experiment = read.experiment
    for arm in experiment.arms:
        planned = _planned_arm(read, engine, arm, methods[arm.method])
        yield planned
        if planned.role == "baseline" and experiment.design.noise_floor:
            yield attrs.evolve(planned, name=f"{arm.name}{REPEAT_SUFFIX}", role="noise_floor")


def _planned_arm(read: ReadExperiment, engine: Engine, arm: Arm, method: Method[Any]) -> PlannedArm:
    experiment = read.experiment
    options, target = arm.options, experiment.target
    python = experiment.launcher.python or sys.executable
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
    )
