"""The options of a method under test: is their class what an experiment needs, do these fit it?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any, get_type_hints

import attrs
from attrs.exceptions import FrozenInstanceError

from specbench.experiment.model import NAME_PATTERN
from specbench.experiment.read import converter
from specbench.experiment.schema import experiment_schema
from specbench.experiment.schema_errors import schema_problems
from specbench.experiment.sweep import unfold
from specbench.methods import Method

ARM_KEYS = ("name", "method")


def read_options(method: Method[Any], written: Mapping[str, Any]) -> tuple[Any | None, list[str]]:
    """Give options as an experiment would read them, or None, and what is wrong with them."""
    name, cls = getattr(method, "name", None), getattr(method, "options", None)
    wrong = []
    if not isinstance(name, str) or not re.match(NAME_PATTERN, name):
        wrong.append(f"its name {name!r} does not match {NAME_PATTERN}")
    if not isinstance(cls, type) or not attrs.has(cls):
        return None, [*wrong, f"its options are no attrs class but {cls!r}"]
    wrong += _class_problems(cls)
    try:
        hints = get_type_hints(cls)
    except NameError as error:
        return None, [*wrong, f"a type of {cls.__name__} is not there at run time: {error}"]
    unknown = [
        f"option {field.name!r} has the type {hints.get(field.name)}, which no schema expresses"
        for field in attrs.fields(cls)
        if not _is_expressible(hints.get(field.name))
    ]
    wrong += unknown
    if unknown:
        return None, wrong
    try:
        schema = experiment_schema({str(name): method})["properties"]["arms"]["items"]
    except Exception as error:  # noqa: BLE001 - whatever a class of others makes of it
        return None, [*wrong, f"no schema can be derived from {cls.__name__}: {told(error)}"]
    structured, refused = _structured({"name": "checked", "method": name, **written}, cls, schema)
    return structured, wrong + refused


def told(error: Exception) -> str:
    """Give an exception of a plugin's code in words."""
    return f"{type(error).__name__}: {error}"


def _structured(
    entry: dict[str, Any], cls: type, schema: dict[str, Any]
) -> tuple[Any | None, list[str]]:
    """Do with one written arm what reading an experiment does."""
    refused = [problem for _, problem in schema_problems(schema, entry)]
    singles: list[dict[str, Any]] = []
    if not refused:
        singles, refused = unfold(entry, cls)
    if len(singles) != 1:
        return None, [f"these options are refused: {problem}" for problem in refused]
    own = {key: value for key, value in singles[0].items() if key not in ARM_KEYS}
    try:
        return converter().structure(own, cls), []
    except Exception as error:  # noqa: BLE001 - a validator of others may raise anything
        return None, [f"these options cannot be structured: {told(error)}"]


def _class_problems(cls: type) -> Iterator[str]:
    if not (cls.__doc__ or "").strip():
        yield f"{cls.__name__} has no docstring, whose first line the schema shows"
    if not _is_frozen(cls):
        yield f"{cls.__name__} is not frozen: write @attrs.frozen"
    for field in attrs.fields(cls):
        said = field.metadata.get("help")
        if not isinstance(said, str) or not said.strip():
            yield f"option {field.name!r} is not documented: write attrs.field(metadata=said(...))"
        if field.name in ARM_KEYS:
            yield f"option {field.name!r} has the name of a key that every arm has"


def _is_frozen(cls: type) -> bool:
    blank: Any = object.__new__(cls)
    name = "checked"
    try:
        setattr(blank, name, None)
    except FrozenInstanceError:
        return True
    except AttributeError:  # it has slots, and no such one
        return False
    return False


def _is_expressible(hint: Any) -> bool:
    """Tell whether a schema can be derived of a class with one option of this type."""
    alone = attrs.make_class("Alone", {"option": attrs.field(type=hint)})
    alone.__doc__ = "One option."
    probe: Any = SimpleNamespace(options=alone)
    try:
        experiment_schema({"probe": probe})
    except (KeyError, TypeError):
        return False
    return True
