"""The gate's error rates in a short form: `benchmarks/validity_gate.py` measures them."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import attrs
import pytest

from tests.conftest import ROOT


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    path = ROOT / "benchmarks/validity_gate.py"
    spec = importlib.util.spec_from_file_location("validity_gate", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["validity_gate"] = module
    spec.loader.exec_module(module)
    return module


def test_equal_servers_differ_and_are_not_blocked(benchmark: ModuleType) -> None:
    world = benchmark.World(noisy=0.31)
    found = benchmark.rates("equal", world, 2)
    assert 0.4 < found.agreement < 0.9
    assert found.verdicts["blocked"] == 0


def test_swapped_tokens_are_blocked(benchmark: ModuleType) -> None:
    found = benchmark.rates("swapped", benchmark.World(noisy=0.31, swaps=0.02), 1)
    assert found.verdicts["blocked"] == 1


def test_experiments_are_seeded(benchmark: ModuleType) -> None:
    world = benchmark.World(noisy=0.31)
    first, again = (tuple(benchmark.captures(5, world))[:1] for _ in range(2))
    assert first == again


def test_a_missed_target_is_told(benchmark: ModuleType) -> None:
    (name, *_), (swapped, *_) = benchmark.IDENTICAL, benchmark.SWAPPED
    good = benchmark.Rates(
        scenario=name,
        experiments=100,
        agreement=0.7,
        verdicts={"pass": 0.99, "blocked": 0.01},
        rule_fails=0.0,
        rule_loose=0.0,
    )
    bad = attrs.evolve(good, verdicts={"blocked": 0.02})
    weak = attrs.evolve(good, scenario=swapped, verdicts={"blocked": 0.94})
    assert benchmark.missed([good, bad, weak]) == [name, swapped]
