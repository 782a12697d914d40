"""Read and check a workload file, and give it a digest.

The digest is taken over canonical content (sorted keys, no spaces) with the order of the lines as
part of it, so that layout does not matter and a changed prompt does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import cattrs
import jsonschema

from specbench.errors import ExperimentError, Problem
from specbench.experiment.model import Prompt
from specbench.experiment.schema import workload_schema


@attrs.frozen(kw_only=True)
class WorkloadContent:
    """The prompts of one file, in order."""

    path: Path
    prompts: tuple[Prompt, ...]
    sha256: str


def read_workload(path: Path) -> WorkloadContent:
    """Read a JSON Lines file of prompts.

    Raises:
        ExperimentError: The file cannot be read, holds no prompt, or has lines that are no prompts;
            every wrong line is named.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ExperimentError(
            [Problem(f"workload {path} is no UTF-8 text", "save it as UTF-8")]
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise ExperimentError([Problem(f"workload {path} cannot be read: {reason}")]) from None
    values: list[Any] = []
    problems: list[Problem] = []
    seen: dict[str, int] = {}
    validator = jsonschema.Draft202012Validator(workload_schema())
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as error:
            problems.append(Problem(f"no valid JSON: {error.msg}", "", f"{path}:{number}"))
            continue
        wrong = list(_line_problems(validator, f"{path}:{number}", value))
        problems += wrong
        if wrong:
            continue
        if value["id"] in seen:
            said = f"id {value['id']!r} stands on line {seen[value['id']]} too"
            problems.append(Problem(said, "every prompt has its own id", f"{path}:{number}"))
        seen[value["id"]] = number
        values.append(value)
    if not values and not problems:
        problems.append(Problem("no prompt in the file", "write one JSON object a line", str(path)))
    if problems:
        raise ExperimentError(problems)
    prompts = cattrs.structure(values, tuple[Prompt, ...])
    return WorkloadContent(path=path, prompts=prompts, sha256=digest(prompts))


def digest(prompts: tuple[Prompt, ...]) -> str:
    """Give the sha256 of prompts in their order."""
    hasher = hashlib.sha256()
    for prompt in prompts:
        line = json.dumps(
            attrs.asdict(prompt), sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        hasher.update(line.encode() + b"\n")
    return hasher.hexdigest()


def _line_problems(
    validator: jsonschema.Draft202012Validator, where: str, value: Any
) -> Iterator[Problem]:
    for error in validator.iter_errors(value):
        field = error.json_path.removeprefix("$").lstrip(".")
        hint = str(error.schema.get("description", ""))
        yield Problem(error.message, hint, f"{where}: {field}" if field else where)
