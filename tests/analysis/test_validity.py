"""The measured error rates: their table in the docs, and a shortened form of the measurement."""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest

from specbench.analysis.bootstrap import MEASURED_COVERAGE
from specbench.analysis.effects import paired
from specbench.analysis.workload_gains import workload_gains
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def validity() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("validity", ROOT / "benchmarks/validity.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        spec.loader.exec_module(module)
        yield module


def test_the_docs_hold_the_table_of_the_last_whole_measurement(validity: ModuleType) -> None:
    text = (ROOT / "docs/statistics.md").read_text()
    shown = text.split("<!-- validity -->\n")[1].split("\n<!-- /validity -->")[0]
    assert shown == validity.table(validity.stored())


def test_the_last_whole_measurement_missed_nothing(validity: ModuleType) -> None:
    assert [row.name for row in validity.stored() if row.holds is False] == []


def test_labels_of_the_bootstrap_are_those_that_were_measured(validity: ModuleType) -> None:
    measured = {row.name: row.measured for row in validity.stored()}
    for blocks, label in MEASURED_COVERAGE.items():
        found = measured[f"bootstrap holds the truth, {blocks} blocks, normal noise"]
        assert float(found.rstrip("%")) / 100 == pytest.approx(label, abs=0.01)


def test_drawn_experiments_go_through_the_products_own_functions(validity: ModuleType) -> None:
    drawn = validity.Drawn(truths=(1.05, 0.9), blocks=5, own_node=0.02, walk=0.01)
    logs = drawn.logs(np.random.default_rng(3), 4)
    for place in range(4):
        pairs = paired(validity.points(drawn, logs[place]))
        gains = workload_gains(pairs, "output_throughput", validity.LOADS)
        found = next(item for item in gains if item.arm == "arm-0")
        expected = np.exp(validity.effect_logs(drawn, logs)[place])
        assert list(found.gains.values()) == pytest.approx(list(expected))


def test_noise_of_both_kinds_has_the_deviation_it_says(validity: ModuleType) -> None:
    for tails in ("normal", "heavy"):
        drawn = validity.Drawn(tails=tails, noise=0.02, noise_floor=False)
        logs = drawn.logs(np.random.default_rng(1), 20_000)
        assert float(logs.std()) == pytest.approx(0.02, rel=0.05)
    # Against the mean of two baselines a ratio spreads by noise x sqrt(1 + 1/2).
    drawn = validity.Drawn(noise=0.02)
    logs = validity.effect_logs(drawn, drawn.logs(np.random.default_rng(1), 20_000))
    assert float(logs.std()) == pytest.approx(0.02 * math.sqrt(1.5), rel=0.02)


def test_coverage_of_few_experiments_is_near_that_of_many(validity: ModuleType) -> None:
    held, boot = validity.coverage(validity.Drawn(), 1, 1_000)
    # Three standard errors of a rate from 1,000.
    assert held == pytest.approx(0.95, abs=0.021)
    assert boot == pytest.approx(MEASURED_COVERAGE[5], abs=0.036)


def test_a_shortened_form_claims_a_real_gain_and_none_that_is_not_there(
    validity: ModuleType,
) -> None:
    real = validity.Drawn(truths=(1.05,))
    assert validity.rate(real, 1, 100, validity.claimed) >= 0.85
    equal = validity.Drawn(truths=(1.0,) * 4, workloads=3, block_node=0.06)
    assert validity.rate(equal, 1, 40, validity.claimed) == 0
    loss = validity.Drawn(truths=(0.92,), noise_floor=False)
    assert validity.rate(loss, 1, 100, validity.absent) == 0
    assert validity.rate(loss, 1, 100, validity.present) >= 0.95


def test_a_missed_limit_is_printed_as_missed(validity: ModuleType) -> None:
    missed = validity.Row(name="x", must="at most 5%", measured="9%", holds=False)
    assert validity.table([missed]).endswith("| x | at most 5% | 9% | **missed** |")
