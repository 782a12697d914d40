"""Schema errors in words: what is wrong, and the nearest thing that would be right."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

import jsonschema

from specbench.errors import Problem
from specbench.experiment.yaml_text import ValuePath


def schema_problems(schema: dict[str, Any], value: Any) -> Iterator[tuple[ValuePath, Problem]]:
    """Give every place in which a value breaks a schema."""
    validator = jsonschema.Draft202012Validator(schema)
    for error in validator.iter_errors(value):
        for leaf in _leaves(error):
            message, hint, key = _said(leaf)
            at = tuple(leaf.absolute_path)
            yield ((*at, key) if key else at), Problem(message, hint)


def _leaves(error: jsonschema.ValidationError) -> Iterator[jsonschema.ValidationError]:
    if not error.context:
        yield error
    for inner in error.context or ():
        yield from _leaves(inner)


def _said(error: jsonschema.ValidationError) -> tuple[str, str, str]:
    """Give message, hint and the offending key of a schema error."""
    rule: Any = error.validator_value
    schema: Any = error.schema
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = list(schema.get("properties", {}))
        unknown = next(key for key in error.instance if key not in known)
        return f"unknown key {unknown!r}", _nearest(unknown, known, "known here"), unknown
    if error.validator == "enum":
        allowed = [str(word) for word in rule]
        hint = _nearest(str(error.instance), allowed, "one of")
        return f"{error.instance!r} is not known", hint, ""
    if error.validator == "required":
        return error.message.replace("is a required property", "is missing"), "", ""
    return error.message, str(schema.get("description", "")), ""


def _nearest(word: str, known: list[str], otherwise: str) -> str:
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"{otherwise}: {', '.join(known)}"
