"""Read and check a workload file, and give it a digest.

The digest is taken over canonical content (sorted keys, no spaces, nothing that was left out) with
the order of the lines as part of it, so that layout does not matter and a changed prompt does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import attrs
import cattrs
import jsonschema

from specbench.errors import ExperimentError, Problem
from specbench.experiment.prompt import Prompt
from specbench.experiment.schema import workload_schema
from specbench.workloads.json_line import NotJson, parse_line

SHOWN_PROBLEMS = 50
"""Problems of a file that are listed; the others are counted."""


@attrs.frozen(kw_only=True)
class WorkloadContent:
    """The prompts of one file, in order."""

    path: Path
    prompts: tuple[Prompt, ...]
    sha256: str
    generated: bool = False
    """It came from no file: a run keeps it."""


def read_workload(path: Path) -> WorkloadContent:
    """Read a JSON Lines file of prompts.

    Raises:
        ExperimentError: The file cannot be read, holds no prompt, or has lines that are no prompts;
            every wrong line is named.
    """
    try:
        with path.open("rb") as file:
            prompts, problems = _prompts(path, file)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ExperimentError([Problem(f"workload {path} cannot be read: {reason}")]) from None
    if not prompts and not problems:
        problems.append(Problem("no prompt in the file", "write one JSON object a line", str(path)))
    if problems:
        raise ExperimentError(shortened(problems))
    return WorkloadContent(path=path, prompts=tuple(prompts), sha256=digest(prompts))


def digest(prompts: Iterable[Prompt]) -> str:
    """Give the sha256 of prompts in their order."""
    hasher = hashlib.sha256()
    for prompt in prompts:
        text = json.dumps(plain(prompt), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        hasher.update(text.encode() + b"\n")
    return hasher.hexdigest()


def plain(prompt: Prompt) -> dict[str, Any]:
    """Give a prompt as the object of its line. What has its default is left out."""
    return attrs.asdict(prompt, filter=lambda field, value: value != field.default)


def workload_lines(prompts: Iterable[Prompt]) -> Iterator[str]:
    """Give prompts as the lines of a workload file."""
    return (json.dumps(plain(prompt), ensure_ascii=False) + "\n" for prompt in prompts)


def shortened(problems: list[Problem]) -> list[Problem]:
    """Give the first problems, and how many more there are."""
    if len(problems) <= SHOWN_PROBLEMS:
        return problems
    more = len(problems) - SHOWN_PROBLEMS
    return [*problems[:SHOWN_PROBLEMS], Problem(f"and {more} more of this kind")]


def _prompts(path: Path, lines: Iterable[bytes]) -> tuple[list[Prompt], list[Problem]]:
    prompts: list[Prompt] = []
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    validator = jsonschema.Draft202012Validator(workload_schema())
    converter = cattrs.Converter()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            value = parse_line(line)
        except NotJson as error:
            problems.append(Problem(str(error), "", where))
            continue
        wrong = list(_line_problems(validator, where, value))
        problems += wrong
        if wrong:
            continue
        if value["id"] in seen:
            said = f"id {value['id']!r} stands on line {seen[value['id']]} too"
            problems.append(Problem(said, "every prompt has its own id", where))
        seen[value["id"]] = number
        prompts.append(converter.structure(value, Prompt))
    return prompts, problems


def _line_problems(
    validator: jsonschema.Draft202012Validator, where: str, value: Any
) -> Iterator[Problem]:
    for error in validator.iter_errors(value):
        if error.validator == "anyOf":
            yield Problem("neither messages nor turns", "write one of them", where)
            continue
        field = error.json_path.removeprefix("$").lstrip(".")
        hint = str(error.schema.get("description", ""))
        yield Problem(_brief(error.message), hint, f"{where}: {field}" if field else where)
    if isinstance(value, dict) and value.get("turns"):
        before = value.get("messages")
        last = before[-1] if isinstance(before, list) and before else None
        if isinstance(last, dict) and last.get("role") == "user":
            hint = "write them as the first turn"
            yield Problem("the user's words stand right before the turns", hint, where)


def _brief(message: str) -> str:
    """Shorten a message that quotes a whole prompt."""
    return message if len(message) <= 300 else f"{message[:140]} ... {message[-140:]}"  # noqa: PLR2004 - a screen's few lines
