"""Rules across the objects of an experiment, each with the place it is about."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from specbench.engines.known import ENGINES
from specbench.errors import ExperimentError, Problem
from specbench.experiment.load import ClosedLoad, Load, OpenLoad
from specbench.experiment.model import (
    NAME_PATTERN,
    REPEAT_SUFFIX,
    Arm,
    AttachLauncher,
    Experiment,
    Target,
)
from specbench.experiment.prompt import Prompt
from specbench.experiment.yaml_text import ValuePath
from specbench.methods import Launch, Method

Placed = tuple[ValuePath, Problem]
MOST_STREAMS = 65_536
LEAST_ARRIVALS = 10


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
    family = ENGINES[experiment.target.engine]
    if experiment.per_request_metrics and family.per_request_metrics(experiment.target) is None:
        said = f"{family.name} {experiment.target.version or ''}".rstrip()
        problem = Problem(f"{said} tells no acceptance of single requests", "leave it out")
        yield ("per_request_metrics",), problem
    yield from _load_problems(experiment.load)
    yield from _prefix_cache_problems(experiment)
    if isinstance(experiment.launcher, AttachLauncher):
        yield from _attached_problems(experiment, experiment.launcher)


def known_refusals(arm: Arm, method: Method[Any], target: Target) -> tuple[str, ...]:
    """Give why the engine's version is known to refuse an arm, each reason with its source."""
    found = dict.fromkeys(_problems_of(arm, method, target))
    return tuple(str(problem) for problem in found if problem.source)


def require_comparison(
    refused: Mapping[str, Sequence[str]], baseline: str, where: str, *, launch_unservable: bool
) -> None:
    """Check that what the engine is not known to refuse can still be compared.

    `refused` gives the reasons of every arm, none for a servable one.

    Raises:
        ExperimentError: The baseline is unservable; or every other arm is, and none is asked for.
    """
    problems = [
        Problem(f"the baseline {baseline!r} is unservable: {reason}", "", where)
        for reason in refused[baseline]
    ]
    others = {name: reasons for name, reasons in refused.items() if name != baseline}
    if others and all(others.values()) and not launch_unservable:
        problems += [
            Problem(f"arm {name!r} is unservable: {reason}", "", where)
            for name, reasons in others.items()
            for reason in reasons
        ]
        left = "no arm is left to compare with the baseline"
        problems.append(Problem(left, "mend one, or ask for them with --launch-unservable", where))
    if problems:
        raise ExperimentError(problems)


def cell_name_problems(experiment: Experiment, strata: Iterable[str]) -> Iterator[Placed]:
    """Give strata and samplings whose names together would name one cell twice."""
    names = Counter(f"{s}-{sampling.name}" for s in strata for sampling in experiment.sampling)
    for name, count in names.items():
        if count > 1:
            said = f"{count} pairs of stratum and sampling make cells named {name!r}"
            yield ("sampling",), Problem(said, "rename a sampling")


def stratum_problems(load: Load, prompts: Mapping[str, Sequence[Prompt]]) -> Iterator[Placed]:
    """Give what a load asks of the strata and their prompts do not have."""
    if load.open is not None and load.open.arrivals == "workload":
        yield from (
            (("load", "open", "arrivals"), problem)
            for stratum, found in prompts.items()
            for problem in _replay_problems(stratum, found)
        )
    if load.closed is not None:
        yield from _pass_problems(load.closed, {name: len(has) for name, has in prompts.items()})


def _replay_problems(stratum: str, prompts: Sequence[Prompt]) -> Iterator[Problem]:
    without = [prompt.id for prompt in prompts if prompt.arrival_s is None]
    if without:
        said = (
            f"{len(without)} of {len(prompts)} prompts of stratum {stratum!r} have no arrival_s, "
            f"the first is {without[0]!r}"
        )
        yield Problem(said, "give each one, or draw arrivals at a rate: arrivals: poisson")
    elif len({prompt.arrival_s for prompt in prompts}) == 1:
        yield Problem(
            f"the prompts of stratum {stratum!r} arrive at one instant", "a rate needs two"
        )


def _pass_problems(closed: ClosedLoad, sizes: Mapping[str, int]) -> Iterator[Placed]:
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
                Problem(
                    f"arm name {name!r} is no folder name",
                    "use a-z, 0-9, '_', '-' and '.' (not first), 60 at most",
                ),
            )


def _method_problems(
    experiment: Experiment, methods: Mapping[str, Method[Any]], places: Mapping[str, int]
) -> Iterator[Placed]:
    """Give mistakes. What has a source is a known refusal: the plan deals with it."""
    target = experiment.target
    of_target = ENGINES[target.engine].check(target, Launch())
    yield from ((("target",), problem) for problem in of_target if not problem.source)
    for arm in experiment.arms:
        for problem in _problems_of(arm, methods[arm.method], target):
            if problem not in of_target and not problem.source:
                message = f"arm {arm.name!r}: {problem.message}"
                yield ("arms", places[arm.name]), attrs.evolve(problem, message=message)


def _problems_of(arm: Arm, method: Method[Any], target: Target) -> tuple[Problem, ...]:
    launch = method.launch(arm.options, target)
    of_engine = ENGINES[target.engine].check(target, launch)
    return (*method.check(arm.options, target), *of_engine)


def _prefix_cache_problems(experiment: Experiment) -> Iterator[Placed]:
    """Give flags of the target that say something else than the policy."""
    flags, policy = experiment.target.flags, experiment.prefix_cache
    for flag, off in ENGINES[experiment.target.engine].without_prefix_cache.items():
        if flag in flags and (flags[flag] == off) != (policy == "off"):
            said = f"flag {flag!r} is {flags[flag]}, and prefix_cache is {policy!r}"
            at: ValuePath = ("target", "flags", flag)
            yield at, Problem(said, "leave the flag out: prefix_cache: off sets it")


def _load_problems(load: Load) -> Iterator[Placed]:
    if (load.closed is None) == (load.open is None):
        said = "an experiment holds one kind of load"
        yield ("load",), Problem(said, "write either closed or open")
    elif load.closed is not None:
        yield from _concurrency_problems(load.closed)
    elif load.open is not None:
        yield from _open_problems(load.open)


def _open_problems(load: OpenLoad) -> Iterator[Placed]:
    at = ("load", "open")
    if load.arrivals == "trace":
        if load.trace is None:
            yield at, Problem("a trace is asked for, and none is named", "write trace: FILE")
        if load.rate:
            yield (*at, "rate"), Problem("a trace has its own rate", "leave rate out")
        return
    if load.trace is not None:
        hint = "write arrivals: trace"
        yield (*at, "trace"), Problem(f"arrivals are {load.arrivals}, and a trace is named", hint)
    if load.arrivals == "workload":
        if load.rate:
            yield (*at, "rate"), Problem("a workload has its own rate", "leave rate out")
        return
    if not load.rate or min(load.rate) <= 0:
        yield (
            (*at, "rate"),
            Problem("every rate is above 0", "write requests a second, such as [2]"),
        )
    elif (load.duration_s is None) == (load.requests is None):
        yield at, Problem("duration_s or requests says how long", "write one of them")
    elif load.duration_s is not None and min(load.rate) * load.duration_s < LEAST_ARRIVALS:
        said = f"{min(load.rate):g} requests/s over {load.duration_s:g} s are hardly any"
        hint = f"at least {LEAST_ARRIVALS} have to be expected"
        yield (*at, "duration_s"), Problem(said, hint)


def _concurrency_problems(closed: ClosedLoad) -> Iterator[Placed]:
    for concurrency in closed.requests:
        if concurrency not in closed.concurrency:
            yield (
                ("load", "closed", "requests"),
                Problem(
                    f"requests are given for concurrency {concurrency}, which is no load point"
                ),
            )
    if max(closed.concurrency) > MOST_STREAMS:
        at = ("load", "closed", "concurrency")
        yield at, Problem(f"a concurrency is above {MOST_STREAMS:,}, more than one client can hold")
    if min(closed.concurrency) < 1:
        yield ("load", "closed", "concurrency"), Problem("a concurrency is below 1")


def _attached_problems(experiment: Experiment, launcher: AttachLauncher) -> Iterator[Placed]:
    at = ("launcher", "servers")
    if experiment.design.equalise:
        said = "servers that run already cannot be launched with the settings of an arm"
        yield ("design", "equalise"), Problem(said, "leave equalise out, or launch the servers")
    names = [arm.name for arm in experiment.arms]
    if experiment.design.noise_floor:
        names += [f"{a.name}{REPEAT_SUFFIX}" for a in experiment.arms if a.method == "baseline"]
    for name in names:
        if name not in launcher.servers:
            hint = "add it, or noise_floor: false" if name.endswith(REPEAT_SUFFIX) else "add it"
            yield at, Problem(f"no server for arm {name!r}", hint)
    for name in launcher.servers:
        if name not in names:
            yield (*at, name), Problem(f"a server for {name!r}, which is no arm")
    shared = Counter(server.base_url.rstrip("/") for server in launcher.servers.values())
    for url, count in shared.items():
        if count > 1:
            yield at, Problem(f"{count} arms share {url}", "every arm needs a server of its own")
