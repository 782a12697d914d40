"""Path to checked `Experiment`: YAML, then schema, then classes, then rules across objects.

All problems of a stage are reported at once, each `file:line: path: what is wrong; what to do`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import cattrs

from specbench.errors import ExperimentError, Problem
from specbench.experiment.chat_template import thinking_problems
from specbench.experiment.decision_rules import decision_problems
from specbench.experiment.model import (
    Arm,
    AttachedServer,
    AttachLauncher,
    Experiment,
    Flag,
    GeneratedWorkload,
    Launcher,
    LocalLauncher,
    Workload,
    WorkloadFile,
)
from specbench.experiment.prompt import Prompt
from specbench.experiment.rules import (
    Placed,
    cell_name_problems,
    rule_problems,
    stratum_problems,
)
from specbench.experiment.schema import experiment_schema
from specbench.experiment.schema_errors import schema_problems
from specbench.experiment.sweep import unfold
from specbench.experiment.yaml_text import Document, ValuePath, parse
from specbench.methods import Method
from specbench.proxy import Proxy
from specbench.workloads.arrival_trace import read_trace
from specbench.workloads.generate import LEAST_GENERATED, generated
from specbench.workloads.read import WorkloadContent, digest, read_workload

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
    trace_s: tuple[float, ...]
    """Arrival instants of a replayed file, in seconds from the start; empty without one."""
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

    def arrivals_s(self, stratum: str) -> tuple[float, ...]:
        """Give the instants that an open load replays, in seconds; none where it draws them.

        Those of a workload are counted from the first arrival of the stratum.
        """
        load = self.experiment.load.open
        if load is None or load.arrivals != "workload":
            return self.trace_s
        found = sorted(p.arrival_s for p in self.prompts(stratum) if p.arrival_s is not None)
        return tuple(instant_s - found[0] for instant_s in found)

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
    refuse = _Refusal(path, document)
    refuse.lines(document.problems)
    unset: set[str] = set()
    value = _substituted(document.value, unset)
    refuse(schema_problems(experiment_schema(methods), value))
    placed, wrong = _arms(value["arms"], methods)
    refuse(wrong)
    experiment: Experiment = converter().structure(value | {"arms": []}, Experiment)
    experiment = attrs.evolve(experiment, arms=tuple(arm for _, arm in placed))
    contents, wrong = _contents(path.parent, experiment)
    places = {arm.name: place for place, arm in placed}
    trace_s, untraced = _trace(path.parent, experiment)
    refuse([*rule_problems(experiment, methods, places), *wrong, *untraced])
    read = ReadExperiment(
        experiment=experiment,
        path=path,
        text=text,
        workloads=tuple(map(_capped, contents, experiment.workloads)),
        correctness=contents[-1] if experiment.correctness else None,
        trace_s=trace_s,
        unset=tuple(sorted(unset)),
    )
    prompts = {stratum: read.prompts(stratum) for stratum in read.strata()}
    refuse(
        [
            *stratum_problems(experiment.load, prompts),
            *cell_name_problems(experiment, read.strata()),
            *decision_problems(experiment, read.strata()),
        ]
    )
    return read


def require_here(read: ReadExperiment) -> None:
    """Check that this machine has what the experiment names.

    Raises:
        ExperimentError: An environment variable is unset or names no proxy, the interpreter is
            missing, or the chat template lacks what a sampling sets.
    """
    where = str(read.path)
    problems = [
        Problem(f"environment variable {name} is not set", f"export {name}=...", where)
        for name in read.unset
    ]
    problems += [attrs.evolve(p, where=where) for p in thinking_problems(read.experiment)]
    launcher = read.experiment.launcher
    if isinstance(launcher, AttachLauncher):
        placed = _Refusal(read.path, parse(read.text)).placed
        problems += [placed(at, problem) for at, problem in _variable_problems(launcher.servers)]
    python = launcher.python
    if python and not problems and not os.access(python, os.X_OK):
        problems.append(
            Problem(f"the interpreter {python!r} cannot be run", "mend launcher.python", where)
        )
    if problems:
        raise ExperimentError(problems)


def _variable_problems(servers: Mapping[str, AttachedServer]) -> Iterator[Placed]:
    """Give what is wrong with the environment variables that servers are reached with."""
    for arm, server in servers.items():
        for key, name in (("api_key_env", server.api_key_env), ("proxy_env", server.proxy_env)):
            at = ("launcher", "servers", arm, key)
            if name and name not in os.environ:
                said = f"environment variable {name} is not set"
                yield at, Problem(said, f"export {name}=...")
            elif name and key == "proxy_env":
                try:
                    Proxy.of(os.environ[name])
                except ValueError as error:
                    said = f"environment variable {name} holds {error}"
                    yield at, Problem(said, f"export {name}=http://host:port")


def converter() -> cattrs.Converter:
    """Give the one converter between documents and model classes."""
    result = cattrs.Converter(forbid_extra_keys=True)

    def flag(value: Any, _: object) -> Any:
        return tuple(value) if isinstance(value, list) else value

    def launcher(value: Any, _: object) -> Any:
        kind = AttachLauncher if value.get("kind") == "attach" else LocalLauncher
        return result.structure(value, kind)

    def workload(value: Any, _: object) -> Any:
        return result.structure(value, GeneratedWorkload if "generate" in value else WorkloadFile)

    result.register_structure_hook_func(lambda hint: hint == Flag, flag)
    result.register_structure_hook_func(lambda hint: hint == Workload, workload)
    result.register_structure_hook_func(lambda hint: hint == Launcher, launcher)
    return result


def _capped(content: WorkloadContent, asked: Workload) -> WorkloadContent:
    """Give a workload with the experiment's own cap, where it has one, and the digest of that."""
    if asked.max_tokens is None or isinstance(asked, GeneratedWorkload):
        return content
    cap = asked.max_tokens
    prompts = tuple(attrs.evolve(prompt, max_tokens=cap) for prompt in content.prompts)
    return attrs.evolve(content, prompts=prompts, sha256=digest(prompts))


class _Refusal:
    """Puts file and line before problems, and raises when there are any."""

    def __init__(self, path: Path, document: Document) -> None:
        self._path = path
        self._document = document

    def lines(self, found: Iterable[tuple[int, Problem]]) -> None:
        """Refuse problems whose line is known."""
        self._raise([attrs.evolve(p, where=f"{self._path}:{line}") for line, p in found])

    def __call__(self, found: Iterable[Placed]) -> None:
        """Refuse problems whose place in the document is known, in its order."""
        ordered = sorted(found, key=lambda item: self._document.line(item[0]))
        self._raise([self.placed(at, problem) for at, problem in ordered])

    def placed(self, at: ValuePath, problem: Problem) -> Problem:
        """Give a problem with its place, unless it has one."""
        if problem.where:
            return problem
        dotted = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in at)
        line = f"{self._path}:{self._document.line(at)}"
        return attrs.evolve(problem, where=f"{line}: {dotted.lstrip('.')}" if at else line)

    def _raise(self, problems: list[Problem]) -> None:
        if problems:
            raise ExperimentError(list(dict.fromkeys(problems)))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ExperimentError(
            [Problem("this is no UTF-8 text", "save it as UTF-8", str(path))]
        ) from None
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
    unset |= {name for name in _VARIABLE.findall(value) if name not in os.environ}
    return _VARIABLE.sub(lambda match: os.environ.get(match[1], match[0]), value)


def _arms(
    entries: list[dict[str, Any]], methods: Mapping[str, Method[Any]]
) -> tuple[list[tuple[int, Arm]], list[Placed]]:
    """Unfold the written arms and structure their options, each with its written place."""
    arms: list[tuple[int, Arm]] = []
    problems: list[Placed] = []
    structure = converter().structure
    for place, entry in enumerate(entries):
        options = methods[entry["method"]].options
        unfolded, wrong = unfold(entry, options)
        problems += [(("arms", place), problem) for problem in wrong]
        for single in unfolded:
            own = {key: item for key, item in single.items() if key not in ("name", "method")}
            structured = structure(own, options)
            arm = Arm(name=single["name"], method=single["method"], options=structured)
            arms.append((place, arm))
    return arms, problems


def _contents(folder: Path, experiment: Experiment) -> tuple[list[WorkloadContent], list[Placed]]:
    """Read the workloads in their order, the one of the captures last."""
    named: list[tuple[ValuePath, Workload]] = [
        (("workloads", place), workload) for place, workload in enumerate(experiment.workloads)
    ]
    if experiment.correctness:
        captured = WorkloadFile(path=experiment.correctness.workload)
        named.append((("correctness", "workload"), captured))
    contents: list[WorkloadContent] = []
    problems: list[Placed] = []
    for at, asked in named:
        if isinstance(asked, GeneratedWorkload):
            if asked.tokens[0] > asked.tokens[1] or asked.tokens[0] < LEAST_GENERATED:
                said = f"tokens {list(asked.tokens)} are no range from {LEAST_GENERATED} up"
                problems.append(((*at, "tokens"), Problem(said, "write [16000, 64000]")))
                continue
            contents.append(generated(asked))
            continue
        try:
            content = read_workload(folder / asked.path)
        except ExperimentError as error:
            problems += [(at, problem) for problem in error.problems]
            continue
        contents.append(content)
        if at[0] == "correctness" and any(prompt.turns for prompt in content.prompts):
            said = f"workload {asked.path} has turns: captures compare single answers"
            problems.append((at, Problem(said, "write earlier turns as messages")))
        if asked.sha256 and asked.sha256 != content.sha256:
            said = f"workload {asked.path} has digest {content.sha256}, not {asked.sha256}"
            hint = "its prompts changed: take the new digest, or the old file"
            problems.append((at, Problem(said, hint)))
    return contents, problems


def _trace(folder: Path, experiment: Experiment) -> tuple[tuple[float, ...], list[Placed]]:
    """Read the arrival instants that an open load replays."""
    load = experiment.load.open
    if load is None or load.trace is None:
        return (), []
    try:
        return read_trace(folder / load.trace), []
    except ExperimentError as error:
        return (), [(("load", "open", "trace"), problem) for problem in error.problems]
