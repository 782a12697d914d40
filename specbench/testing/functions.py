"""The functions of a method under test: do they give the contract's types, the same every time?"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from specbench.errors import Problem
from specbench.experiment.model import Target
from specbench.methods import Confound, Counting, Expected, Launch, Method
from specbench.testing.options import told

Fits = Callable[[Any], bool]


@attrs.frozen
class _Contract:
    """What a function gives, in words and as a test."""

    words: str
    fits: Fits
    takes_target: bool = True


def _tuple_of(kind: type) -> Fits:
    return lambda value: isinstance(value, tuple) and all(isinstance(one, kind) for one in value)


def _fits_launch(value: Any) -> bool:
    return (
        isinstance(value, Launch)
        and isinstance(value.speculation, Mapping)
        and _is_json(dict(value.speculation))
        and _tuple_of(str)(value.arguments)
        and isinstance(value.environment, Mapping)
        and _tuple_of(str)((*value.environment, *value.environment.values()))
    )


def _is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def _fits_expected(value: Any) -> bool:
    return isinstance(value, Expected) and _tuple_of(str)(value.methods)


def _fits_counting(value: Any) -> bool:
    return value is None or isinstance(value, Counting)


CONTRACT = {
    "check": _Contract("a tuple of Problem", _tuple_of(Problem)),
    "assets": _Contract("a tuple of texts", _tuple_of(str), takes_target=False),
    "launch": _Contract(
        "a Launch of a JSON mapping, a tuple of texts and a mapping of texts to texts", _fits_launch
    ),
    "expected": _Contract("an Expected with a tuple of texts", _fits_expected),
    "confounds": _Contract("a tuple of Confound", _tuple_of(Confound)),
    "counting": _Contract("a Counting or None", _fits_counting),
    "caveats": _Contract("a tuple of texts", _tuple_of(str), takes_target=False),
}


def results(method: Method[Any], options: Any, target: Target) -> tuple[dict[str, Any], list[str]]:
    """Give what each function gives, without those that break the contract, and what they break."""
    given: dict[str, Any] = {}
    wrong: list[str] = []
    for name, contract in CONTRACT.items():
        try:
            (first, kept), (second, _) = (
                _called(method, name, options, target) for _ in ("once", "again")
            )
        except Exception as error:  # noqa: BLE001 - code of others may raise anything
            wrong.append(f"{name} raised {told(error)}")
            continue
        if not contract.fits(first):
            wrong.append(f"{name} gave {first!r}, not {contract.words}")
            continue
        if first != second:
            wrong.append(f"{name} is not pure: it gave {first!r}, and then {second!r}")
        if not kept:
            wrong.append(f"{name} is not pure: it changed its options or its target")
        given[name] = first
    return given, wrong


def _called(method: Method[Any], name: str, options: Any, target: Target) -> tuple[Any, bool]:
    """Call a function with inputs of its own, and tell whether it left them as they were."""
    inputs = copy.deepcopy((options, target))
    taken = inputs if CONTRACT[name].takes_target else inputs[:1]
    return getattr(method, name)(*taken), inputs == (options, target)
