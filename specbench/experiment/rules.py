"""Rules across the objects of an experiment, each with the place it is about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from specbench.engines import ENGINES
from specbench.errors import Problem
from specbench.experiment.model import (
    NAME_PATTERN,
    REPEAT_SUFFIX,
    ClosedLoad,
    Experiment,
)
from specbench.experiment.yaml_text import ValuePath
from specbench.methods import Launch, Method

Placed = tuple[ValuePath, Problem]


def rule_problems(
    experiment: Experiment, methods: Mapping[str, Method[Any]], places: Mapping[str, int]
) -> Iterator[Placed]:
    """Give what is wrong between engine, arms, samplings and load.

    `places` gives the written arm, from 0, that each unfolded arm came from.
    """
    if experiment.target.engine not in ENGINES:
        yield (
            ("target", "engine"),
            Problem(
                f"engine {experiment.target.engine!r} is not known",
                f"one of: {', '.join(ENGINES)}",
            ),
        )
        return
    yield from _arm_problems(experiment, places)
    yield from _method_problems(experiment, methods, places)
    for name, count in Counter(sampling.name for sampling in experiment.sampling).items():
        if count > 1:
            yield ("sampling",), Problem(f"{count} samplings are named {name!r}")
    yield from _concurrency_problems(experiment.load.closed)


def stratum_problems(closed: ClosedLoad, sizes: Mapping[str, int]) -> Iterator[Placed]:
    """Give requests that do not fit the strata, whose numbers of prompts are `sizes`."""
    at = ("load", "closed", "requests")
    for concurrency, asked in closed.requests.items():
        if asked < concurrency:
            yield at, Problem(f"{asked} requests cannot keep {concurrency} in flight")
        for stratum, size in sizes.items():
            if asked > size and asked % size and not closed.repeat:
                yield (
                    at,
                    Problem(
                        f"{asked} requests at concurrency {concurrency} are no whole passes over "
                        f"the {size} prompts of stratum {stratum!r}",
                        f"write a multiple of {size}, or repeat: true",
                    ),
                )


def _arm_problems(experiment: Experiment, places: Mapping[str, int]) -> Iterator[Placed]:
    baselines = [arm.name for arm in experiment.arms if arm.method == "baseline"]
    if len(baselines) != 1:
        yield (
            ("arms",),
            Problem(
                f"{len(baselines)} arms have method baseline",
                "write exactly one; the plan derives its repeats",
            ),
        )
    names = [arm.name for arm in experiment.arms]
    if experiment.design.noise_floor:
        names += [f"{name}{REPEAT_SUFFIX}" for name in baselines]
    for name, count in Counter(names).items():
        at: ValuePath = ("arms", places[name]) if name in places else ("arms",)
        if count > 1:
            yield at, Problem(f"{count} arms are named {name!r}", "name every arm once")
        if not re.match(NAME_PATTERN, name):
            yield (
                at,
                Problem(f"arm name {name!r} is no folder name", "use a-z, 0-9, '.', '_' and '-'"),
            )


def _method_problems(
    experiment: Experiment, methods: Mapping[str, Method[Any]], places: Mapping[str, int]
) -> Iterator[Placed]:
    engine, target = ENGINES[experiment.target.engine], experiment.target
    of_target = engine.check(target, Launch())
    yield from ((("target",), problem) for problem in of_target)
    for arm in experiment.arms:
        method = methods[arm.method]
        launch = method.launch(arm.options, target)
        for problem in (*method.check(arm.options, target), *engine.check(target, launch)):
            if problem not in of_target:
                message = f"arm {arm.name!r}: {problem.message}"
                yield ("arms", places[arm.name]), attrs.evolve(problem, message=message)


def _concurrency_problems(closed: ClosedLoad) -> Iterator[Placed]:
    for concurrency in closed.requests:
        if concurrency not in closed.concurrency:
            yield (
                ("load", "closed", "requests"),
                Problem(
                    f"requests are given for concurrency {concurrency}, which is no load point"
                ),
            )
    if min(closed.concurrency) < 1:
        yield ("load", "closed", "concurrency"), Problem("a concurrency is below 1")
