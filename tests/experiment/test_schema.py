from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import attrs
import jsonschema
import pytest

from specbench.experiment.said import said
from specbench.experiment.schema import experiment_schema, workload_schema
from specbench.experiment.sweep import unfold
from specbench.methods import Method
from tests.conftest import ROOT


def test_committed_schemas_match_the_code(methods: Mapping[str, Method[Any]]) -> None:
    """`specbench schema > schemas/experiment.schema.json` writes them."""
    for name, schema in (
        ("experiment", experiment_schema(methods)),
        ("workload", workload_schema()),
    ):
        committed = json.loads((ROOT / f"schemas/{name}.schema.json").read_text())
        assert committed == schema


def test_schemas_are_schemas(methods: Mapping[str, Method[Any]]) -> None:
    jsonschema.Draft202012Validator.check_schema(experiment_schema(methods))
    jsonschema.Draft202012Validator.check_schema(workload_schema())


def test_every_field_says_what_it_is(methods: Mapping[str, Method[Any]]) -> None:
    def undescribed(schema: Any, path: str) -> list[str]:
        if not isinstance(schema, dict):
            return []
        found = [
            f"{path}.{name}"
            for name, part in schema.get("properties", {}).items()
            if isinstance(part, dict) and "description" not in part and "const" not in part
        ]
        for name, part in schema.items():
            parts = part.items() if name == "properties" else [(name, part)]
            found += [hit for key, inner in parts for hit in undescribed(inner, f"{path}.{key}")]
        return found

    assert undescribed(experiment_schema(methods)["properties"], "$") == []


@attrs.frozen(kw_only=True)
class ListOptions:
    """Options of which one is a list."""

    depth: int = attrs.field(metadata=said("Depth.", minimum=1))
    tiers: tuple[int, ...] = attrs.field(default=(), metadata=said("Tiers."))


def test_a_list_option_sweeps_only_when_asked() -> None:
    whole, problems = unfold({"name": "x", "method": "m", "depth": 2, "tiers": [1, 2]}, ListOptions)
    assert (len(whole), problems) == (1, [])
    swept, problems = unfold(
        {"name": "x-{tiers}", "method": "m", "depth": 2, "tiers": {"sweep": [[1], [2]]}},
        ListOptions,
    )
    assert [entry["tiers"] for entry in swept] == [[1], [2]]


def test_two_swept_options_give_every_combination() -> None:
    entry = {
        "name": "x-{depth}-{tiers}",
        "method": "m",
        "depth": [1, 2],
        "tiers": {"sweep": [[3], [4]]},
    }
    arms, _ = unfold(entry, ListOptions)
    assert [(arm["depth"], arm["tiers"]) for arm in arms] == [
        (1, [3]),
        (1, [4]),
        (2, [3]),
        (2, [4]),
    ]


@pytest.mark.parametrize("name", ["x", "x-{depht}"])
def test_a_name_that_does_not_hold_the_swept_option_is_refused(name: str) -> None:
    arms, problems = unfold({"name": name, "method": "m", "depth": [1, 2]}, ListOptions)
    assert arms == []
    assert problems
