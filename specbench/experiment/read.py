"""Path to checked `Experiment`: YAML, then schema, then classes, then rules across objects.

All problems of a stage are reported at once, each `file:line: path: what is wrong; what to do`.
"""

from __future__ import annotations

import difflib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import cattrs
import jsonschema

from specbench.engines import ENGINES
from specbench.errors import ExperimentError, Problem
from specbench.experiment.model import NAME_PATTERN, Arm, Experiment, Flag, LocalLauncher, Prompt
from specbench.experiment.schema import experiment_schema
from specbench.experiment.sweep import unfold
from specbench.experiment.yaml_text import Document, Path as ValuePath, parse
from specbench.methods import Method
from specbench.workloads.read import WorkloadContent, read_workload

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


@attrs.frozen(kw_only=True)
class ReadExperiment:
    """An experiment with everything that it names: ready to be planned."""

    experiment: Experiment
    path: Path
    text: str
    """The document as written."""
    workloads: tuple[WorkloadContent, ...]
    correctness: WorkloadContent | None
    unset: tuple[str, ...]
    """Environment variables that it names and that are not set."""

    def prompts(self, stratum: str) -> tuple[Prompt, ...]:
        """Give the prompts of a stratum in the order of their file."""
        return tuple(
            prompt
            for workload in self.workloads
            for prompt in workload.prompts
            if prompt.stratum == stratum
        )

    def strata(self) -> tuple[str, ...]:
        """Give the strata in the order in which they first appear."""
        return tuple(
            dict.fromkeys(p.stratum for workload in self.workloads for p in workload.prompts)
        )


def read_experiment(path: Path, methods: Mapping[str, Method[Any]]) -> ReadExperiment:
    """Read, check and unfold one experiment document and the workloads it names.

    Raises:
        ExperimentError: With every problem of the first stage that found any.
    """
    text = _text(path)
    document = parse(text)
    _stop([_at(path, line, problem) for line, problem in document.problems])
    unset: set[str] = set()
    value = _substituted(document.value, unset)
    _stop(list(_schema_problems(path, document, value, methods)))
    arms, problems = _arms(path, document, value, methods)
    _stop(problems)
    experiment: Experiment = converter().structure(value | {"arms": []}, Experiment)
    experiment = attrs.evolve(experiment, arms=tuple(arms))
    problems = [
        _at(path, document.line(at), problem, at) for at, problem in _rule_problems(experiment, methods)
    ]
    workloads, workload_problems = _workloads(path, document, experiment)
    _stop(problems + workload_problems)
    read = ReadExperiment(
        experiment=experiment,
        path=path,
        text=text,
        workloads=tuple(workloads[: len(experiment.workloads)]),
        correctness=workloads[-1] if experiment.correctness else None,
        unset=tuple(sorted(unset)),
    )
    _stop([_at(path, document.line(at), problem, at) for at, problem in _load_problems(read)])
    return read


def require_here(read: ReadExperiment) -> None:
    """Check that this machine has what the experiment names.

    Raises:
        ExperimentError: An environment variable is unset, or the interpreter is missing.
    """
    problems = [
        Problem(f"environment variable {name} is not set", f"export {name}=...", str(read.path))
        for name in read.unset
    ]
    python = read.experiment.launcher.python
    if python and not read.unset and not os.access(python, os.X_OK):
        problems.append(
            Problem(f"the interpreter {python!r} cannot be run", "mend launcher.python", str(read.path))
        )
    _stop(problems)


def converter() -> cattrs.Converter:
    """Give the one converter between documents and model classes."""
    result = cattrs.Converter(forbid_extra_keys=True)

    def flag(value: Any, _: object) -> Any:
        return tuple(value) if isinstance(value, list) else value

    result.register_structure_hook_func(lambda hint: hint == Flag, flag)
    return result


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ExperimentError([Problem("this is no text file", "", str(path))]) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise ExperimentError([Problem(f"cannot be read: {reason}", "", str(path))]) from None


def _substituted(value: Any, unset: set[str]) -> Any:
    """Put environment variables into string values. An unset one stays as written."""
    if isinstance(value, dict):
        return {key: _substituted(item, unset) for key, item in value.items()}
    if isinstance(value, list):
        return [_substituted(item, unset) for item in value]
    if not isinstance(value, str):
        return value

    def fill(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            unset.add(match[1])
        return os.environ.get(match[1], match[0])

    return _VARIABLE.sub(fill, value)


def _schema_problems(
    path: Path, document: Document, value: Any, methods: Mapping[str, Method[Any]]
) -> Iterator[Problem]:
    validator = jsonschema.Draft202012Validator(experiment_schema(methods))
    for error in sorted(validator.iter_errors(value), key=lambda e: document.line(tuple(e.path))):
        for leaf in _leaves(error):
            at = tuple(leaf.absolute_path)
            message, hint, key = _said(leaf)
            line = document.line((*at, key) if key else at)
            yield _at(path, line, Problem(message, hint), at)


def _leaves(error: jsonschema.ValidationError) -> Iterator[jsonschema.ValidationError]:
    if not error.context:
        yield error
    for inner in error.context or ():
        yield from _leaves(inner)


def _said(error: jsonschema.ValidationError) -> tuple[str, str, str]:
    """Give message, hint and the offending key of a schema error."""
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = list(error.schema.get("properties", {}))
        unknown = next(key for key in error.instance if key not in known)
        near = difflib.get_close_matches(unknown, known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
        return f"unknown key {unknown!r}", hint, unknown
    if error.validator == "enum":
        allowed = [str(word) for word in error.validator_value]
        near = difflib.get_close_matches(str(error.instance), allowed, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"one of: {', '.join(allowed)}"
        return f"{error.instance!r} is not known", hint, ""
    if error.validator == "required":
        return error.message.replace("is a required property", "is missing"), "", ""
    return error.message, str(error.schema.get("description", "")), ""


def _arms(
    path: Path, document: Document, value: Any, methods: Mapping[str, Method[Any]]
) -> tuple[list[Arm], list[Problem]]:
    arms: list[Arm] = []
    problems: list[Problem] = []
    structure = converter().structure
    for place, entry in enumerate(value["arms"]):
        method = methods[entry["method"]]
        entries, wrong = unfold(entry, method.options)
        for unfolded in entries:
            keys = {key: item for key, item in unfolded.items() if key not in ("name", "method")}
            arms.append(
                Arm(
                    name=unfolded["name"],
                    method=unfolded["method"],
                    options=structure(keys, method.options),
                )
            )
        at = ("arms", place)
        problems += [_at(path, document.line(at), problem, at) for problem in wrong]
    return arms, problems


def _rule_problems(
    experiment: Experiment, methods: Mapping[str, Method[Any]]
) -> Iterator[tuple[ValuePath, Problem]]:
    """Rules across objects."""
    target = experiment.target
    if target.engine not in ENGINES:
        yield ("target", "engine"), Problem(
            f"engine {target.engine!r} is not known", f"one of: {', '.join(ENGINES)}"
        )
        return
    engine = ENGINES[target.engine]
    baselines = [arm.name for arm in experiment.arms if arm.method == "baseline"]
    if len(baselines) != 1:
        yield ("arms",), Problem(
            f"{len(baselines)} arms have method baseline",
            "write exactly one; the plan derives its repeats",
        )
    for name, count in Counter(arm.name for arm in experiment.arms).items():
        if count > 1:
            yield ("arms",), Problem(f"{count} arms are named {name!r}", "name every arm once")
    for arm in experiment.arms:
        if not re.match(NAME_PATTERN, arm.name):
            yield ("arms",), Problem(
                f"arm name {arm.name!r} is no folder name", "use a-z, 0-9, '.', '_' and '-'"
            )
        method = methods[arm.method]
        problems = (
            *method.check(arm.options, target),
            *engine.check(target, method.launch(arm.options, target)),
        )
        for problem in problems:
            yield ("arms",), attrs.evolve(problem, message=f"arm {arm.name!r}: {problem.message}")
    for name, count in Counter(sampling.name for sampling in experiment.sampling).items():
        if count > 1:
            yield ("sampling",), Problem(f"{count} samplings are named {name!r}")
    asked = set(experiment.load.closed.concurrency)
    for concurrency in experiment.load.closed.requests:
        if concurrency not in asked:
            yield ("load", "closed", "requests"), Problem(
                f"requests are given for concurrency {concurrency}, which is no load point"
            )
    if any(concurrency < 1 for concurrency in asked):
        yield ("load", "closed", "concurrency"), Problem("a concurrency is below 1")


def _load_problems(read: ReadExperiment) -> Iterator[tuple[ValuePath, Problem]]:
    closed = read.experiment.load.closed
    for stratum in read.strata():
        size = len(read.prompts(stratum))
        for concurrency, asked in closed.requests.items():
            if asked > size and asked % size and not closed.repeat:
                yield ("load", "closed", "requests"), Problem(
                    f"{asked} requests at concurrency {concurrency} are no whole passes over the "
                    f"{size} prompts of stratum {stratum!r}",
                    f"write a multiple of {size}, or repeat: true",
                )
            if asked < concurrency:
                yield ("load", "closed", "requests"), Problem(
                    f"{asked} requests cannot keep {concurrency} in flight"
                )


def _workloads(
    path: Path, document: Document, experiment: Experiment
) -> tuple[list[WorkloadContent], list[Problem]]:
    named: list[tuple[ValuePath, str, str | None]] = [
        (("workloads", place), workload.path, workload.sha256)
        for place, workload in enumerate(experiment.workloads)
    ]
    if experiment.correctness:
        named.append((("correctness", "workload"), experiment.correctness.workload, None))
    contents: list[WorkloadContent] = []
    problems: list[Problem] = []
    for at, name, digest in named:
        try:
            content = read_workload(path.parent / name)
        except ExperimentError as error:
            problems += [
                _at(path, document.line(at), problem, at) if not problem.where else problem
                for problem in error.problems
            ]
            continue
        if digest and digest != content.sha256:
            problems.append(
                _at(
                    path,
                    document.line(at),
                    Problem(
                        f"workload {name} has digest {content.sha256}, not {digest}",
                        "its prompts changed: take the new digest, or the old file",
                    ),
                    at,
                )
            )
        contents.append(content)
    return contents, problems


def _at(path: Path, line: int, problem: Problem, at: ValuePath = ()) -> Problem:
    dotted = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in at)
    where = f"{path}:{line}: {dotted.lstrip('.')}" if at else f"{path}:{line}"
    return attrs.evolve(problem, where=where)


def _stop(problems: list[Problem]) -> None:
    if problems:
        raise ExperimentError(list(dict.fromkeys(problems)))


__all__ = ["LocalLauncher", "ReadExperiment", "converter", "read_experiment", "require_here"]
