"""Unfold swept options: one written arm becomes an arm for each combination."""

from __future__ import annotations

import itertools
import re
from typing import Any

import attrs

from specbench.errors import Problem
from specbench.experiment.schema import SWEEP, is_list_option

_PLACEHOLDER = re.compile(r"\{([a-z0-9_]+)\}")


def unfold(entry: dict[str, Any], options: type) -> tuple[list[dict[str, Any]], list[Problem]]:
    """Give the arms that one written arm stands for, in the order of its options.

    `entry` already satisfies the schema. A scalar option sweeps over a list; a list option over
    `{sweep: [...]}`. The name must hold `{option}` for every swept option.
    """
    swept = {
        field.name: values
        for field in attrs.fields(options)
        if (values := _values(entry.get(field.name), listed=is_list_option(field, options)))
    }
    name = str(entry["name"])
    placeholders = set(_PLACEHOLDER.findall(name))
    problems = [
        Problem(
            f"option {option!r} is swept, but arm name {name!r} does not hold it",
            f"name the arm {name}-{{{option}}}",
        )
        for option in swept
        if option not in placeholders
    ] + [
        Problem(f"arm name {name!r} holds {{{word}}}, which is no option of this arm")
        for word in sorted(placeholders)
        if word not in entry
    ]
    if problems:
        return [], problems
    combinations = itertools.product(*swept.values())
    return [_named(entry | dict(zip(swept, chosen, strict=True))) for chosen in combinations], []


def _values(value: Any, *, listed: bool) -> list[Any] | None:
    if listed:
        return value[SWEEP] if isinstance(value, dict) else None
    return value if isinstance(value, list) else None


def _named(entry: dict[str, Any]) -> dict[str, Any]:
    def shown(match: re.Match[str]) -> str:
        return str(entry[match[1]]).lower()

    return entry | {"name": _PLACEHOLDER.sub(shown, entry["name"])}
