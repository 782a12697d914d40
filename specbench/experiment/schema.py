"""attrs classes to JSON Schema, for the closed set of types that the document uses.

Arms are a tagged union on `method`: an enum and an if/then for each method, never oneOf, so that a
wrong option is reported as that option.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs

from specbench.experiment.model import NAME_PATTERN, Arm, Experiment
from specbench.experiment.prompt import Prompt
from specbench.methods import Method

Schema = dict[str, Any]

DIALECT = "https://json-schema.org/draft/2020-12/schema"
SWEEP = "sweep"
_PRIMITIVES: dict[object, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


def experiment_schema(methods: Mapping[str, Method[Any]]) -> Schema:
    """Give the schema of an experiment document, with the options of these methods."""
    schema = _class_schema(Experiment)
    schema["properties"]["arms"]["items"] = _arm_schema(methods)
    return {"$schema": DIALECT, "title": "specbench experiment", **schema}


def workload_schema() -> Schema:
    """Give the schema of one line of a workload file."""
    prompt = {"anyOf": [{"required": ["messages"]}, {"required": ["turns"]}]}
    line = _class_schema(Prompt) | prompt
    return {"$schema": DIALECT, "title": "specbench workload line", **line}


def is_list_option(option: attrs.Attribute[Any], options: type) -> bool:
    """Tell whether a method's option is itself a list, so that a list does not sweep it."""
    return any(
        get_origin(part) is tuple for part in _alternatives(get_type_hints(options)[option.name])
    )


def _class_schema(cls: type) -> Schema:
    hints = get_type_hints(cls)
    fields = attrs.fields(cls)
    required = [field.name for field in fields if field.default is attrs.NOTHING]
    schema: Schema = {
        "type": "object",
        "description": _first_line(cls),
        "properties": {field.name: _field_schema(field, hints[field.name]) for field in fields},
        "additionalProperties": False,
    }
    return {**schema, "required": required} if required else schema


def _field_schema(field: attrs.Attribute[Any], hint: object) -> Schema:
    schema: Schema = {} if hint in (Any, tuple[Arm, ...]) else _type_schema(hint)
    if field.metadata:
        schema |= {"description": field.metadata["help"], **field.metadata["limits"]}
    if hint == tuple[Arm, ...]:
        schema["type"] = "array"
    if isinstance(field.default, (str, int, float)):
        schema["default"] = field.default
    return schema


def _type_schema(hint: object) -> Schema:
    alternatives = _alternatives(hint)
    if len(alternatives) > 1:
        return _union_schema(alternatives)
    origin = get_origin(hint)
    if origin is Literal:
        return {"enum": list(get_args(hint))}
    if origin is tuple:
        return {"type": "array", "items": _type_schema(get_args(hint)[0])}
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_schema(*get_args(hint))
    if isinstance(hint, type) and attrs.has(hint):
        return _class_schema(hint)
    return {"type": _PRIMITIVES[hint]}


def _union_schema(alternatives: tuple[object, ...]) -> Schema:
    if all(isinstance(part, type) and attrs.has(part) for part in alternatives):
        schemas = [_class_schema(part) for part in alternatives]  # type: ignore[arg-type]  # as asked
        kinds = all("kind" in schema["properties"] for schema in schemas)
        return _tagged_schema(schemas) if kinds else _keyed_schema(*schemas)
    names: list[str] = []
    rest: Schema = {}
    for part in alternatives:
        schema = _type_schema(part)
        names.append(schema.pop("type"))
        rest |= schema
    return {"type": names, **rest}


def _keyed_schema(usual: Schema, other: Schema) -> Schema:
    """Give two classes told apart by the other's first field."""
    key = next(iter(other["properties"]))
    return {"type": "object", "if": {"required": [key]}, "then": other, "else": usual}


def _tagged_schema(schemas: list[Schema]) -> Schema:
    """Give classes told apart by `kind`: the one with a default stands for an absent tag, too."""
    kinds: list[str] = []
    branches: list[Schema] = []
    for schema in schemas:
        (kind,) = schema["properties"]["kind"]["enum"]
        kinds.append(kind)
        tag: Schema = {"properties": {"kind": {"const": kind}}}
        if "kind" in schema.get("required", ()):
            tag["required"] = ["kind"]
        branches.append({"if": tag, "then": schema})
    kind_schema = {"enum": kinds, "description": "Which kind this is."}
    return {"type": "object", "properties": {"kind": kind_schema}, "allOf": branches}


def _mapping_schema(key: object, value: object) -> Schema:
    schema: Schema = {"type": "object", "additionalProperties": _type_schema(value)}
    return {**schema, "propertyNames": {"pattern": r"^[0-9]+$"}} if key is int else schema


def _arm_schema(methods: Mapping[str, Method[Any]]) -> Schema:
    name = {
        "type": "string",
        "description": "Unique; {option} stands for the value of a swept option.",
        "minLength": 1,
    }
    method = {"enum": sorted(methods), "description": "An installed method."}
    branches = [
        {
            "if": {"properties": {"method": {"const": tag}}, "required": ["method"]},
            "then": _options_schema(tag, methods[tag].options),
        }
        for tag in sorted(methods)
    ]
    return {
        "type": "object",
        "description": _first_line(Arm),
        "properties": {"name": name, "method": method},
        "required": ["name", "method"],
        "allOf": branches,
    }


def _options_schema(tag: str, options: type) -> Schema:
    schema = _class_schema(options)
    hints = get_type_hints(options)
    for option in attrs.fields(options):
        schema["properties"][option.name] = _swept(
            schema["properties"][option.name], listed=is_list_option(option, options)
        )
        if any(
            attrs.has(part) for part in _alternatives(hints[option.name]) if isinstance(part, type)
        ):
            raise TypeError(f"option {option.name} of method {tag}: nested classes are not options")
    properties = {"name": True, "method": True, **schema["properties"]}
    return {**schema, "properties": properties}


def _swept(schema: Schema, *, listed: bool) -> Schema:
    """Widen an option's schema, so that it may also be swept."""
    shown: Schema = {key: schema.pop(key) for key in ("description", "default") if key in schema}
    names = schema.get("type", "string")
    several = list(names) if isinstance(names, list) else [names]
    if listed:
        values: Schema = {"type": "array", "items": dict(schema), "minItems": 1}
        sweep = {"properties": {SWEEP: values}, "required": [SWEEP], "additionalProperties": False}
        return {**shown, **schema, "type": [*several, "object"], **sweep}
    if "enum" in schema:
        return {
            **shown,
            "if": {"type": "array"},
            "then": {"items": dict(schema), "minItems": 1},
            "else": dict(schema),
        }
    return {**shown, **schema, "type": [*several, "array"], "items": dict(schema), "minItems": 1}


def _alternatives(hint: object) -> tuple[object, ...]:
    if get_origin(hint) in (Union, types.UnionType):
        return get_args(hint)
    return (hint,)


def _first_line(cls: type) -> str:
    return (cls.__doc__ or "").strip().splitlines()[0]


__all__ = ["NAME_PATTERN", "SWEEP", "experiment_schema", "is_list_option", "workload_schema"]
