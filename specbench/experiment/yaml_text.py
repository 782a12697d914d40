"""YAML text to plain values with the line of each, refusing what a document of ours never needs."""

from __future__ import annotations

import math
from typing import Any

import attrs
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from specbench.errors import Problem

ValuePath = tuple[str | int, ...]

MOST_NODES = 10_000
DEEPEST = 50
_CORE = "tag:yaml.org,2002:"
_SCALARS = {f"{_CORE}{name}" for name in ("null", "bool", "int", "float")}
_TEXTS = {f"{_CORE}{name}" for name in ("str", "timestamp")}


@attrs.frozen
class Document:
    """A parsed document: plain values, and the line of every path in it."""

    value: Any
    lines: dict[ValuePath, int]
    problems: tuple[tuple[int, Problem], ...]

    def line(self, path: ValuePath) -> int:
        """Give the line of a path, or of the nearest place above it that has one."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def parse(text: str) -> Document:
    """Parse one YAML document. Syntax errors, duplicate keys and tags come back as problems."""
    yaml = YAML(typ="safe", pure=True)
    try:
        node = yaml.compose(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        what = " ".join(str(error.problem or error.context).split())
        hint = "indent with spaces" if "\\t" in what else ""
        return Document(None, {}, ((line, Problem(f"no valid YAML: {what}", hint)),))
    except YAMLError as error:
        what = str(error).strip().splitlines()[0]
        return Document(None, {}, ((1, Problem(f"no valid YAML: {what}")),))
    if node is None:
        return Document(
            None,
            {},
            ((1, Problem("the file is empty", "`specbench schema` shows what belongs in it")),),
        )
    walk = _Walk(yaml)
    value = walk.value(node, ())
    return Document(value, walk.lines, tuple(walk.problems))


class _Walk:
    """Unfolds nodes into plain values, noting lines and what must be refused."""

    def __init__(self, yaml: YAML) -> None:
        self.lines: dict[ValuePath, int] = {}
        self.problems: list[tuple[int, Problem]] = []
        self._yaml = yaml
        self._count = 0
        self._stopped = False

    def value(self, node: Node, path: ValuePath) -> Any:
        line = node.start_mark.line + 1
        self.lines[path] = line
        self._count += 1
        if self._count > MOST_NODES or len(path) > DEEPEST:
            if not self._stopped:
                self._stopped = True
                said = f"more than {MOST_NODES:,} values, or {DEEPEST} levels"
                self._refuse(line, said, "aliases unfold; write less")
            return None
        if isinstance(node, MappingNode):
            return self._mapping(node, path)
        if isinstance(node, SequenceNode):
            return [self.value(item, (*path, place)) for place, item in enumerate(node.value)]
        return self._scalar(node, line)

    def _mapping(self, node: MappingNode, path: ValuePath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, item in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode):
                self._refuse(line, "a key must be a word")
                continue
            key = key_node.value
            if key == "<<":
                self._refuse(line, "merge keys (<<) are not read", "write the values out")
                continue
            if key in result:
                self._refuse(line, f"duplicate key {key!r}", "keep one of them")
            result[key] = self.value(item, (*path, key))
            self.lines[(*path, key)] = line
        return result

    def _scalar(self, node: Node, line: int) -> Any:
        tag = str(node.tag)
        if tag in _TEXTS:
            return node.value
        if tag in _SCALARS:
            value = self._yaml.constructor.construct_object(node)
            if isinstance(value, float) and not math.isfinite(value):
                self._refuse(line, f"{node.value} is no finite number")
            return value
        self._refuse(line, f"tag {tag.removeprefix(_CORE)!r} is not read", "write a plain value")
        return None

    def _refuse(self, line: int, message: str, hint: str = "") -> None:
        self.problems.append((line, Problem(message, hint)))
