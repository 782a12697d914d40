"""The presets against what was measured: the H200 captures, and the published 70B study."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from specbench.engines.simulated.cost import Load
from specbench.engines.simulated.engine import KNOWN_FLAGS
from specbench.engines.simulated.faults import NAMES
from specbench.engines.simulated.presets import GH200X4_70B, H200_6B, PRESETS
from tests.conftest import CAPTURES, ROOT, made_once

H200 = CAPTURES / "vllm-0.23.0-h200"


@pytest.fixture(scope="module")
def fitting() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "fit_simulated", ROOT / "benchmarks/fit_simulated.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def table(fitting: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What the fit prints, real beside simulated. Played once: it takes seconds."""

    def play(_: Path) -> str:
        return "\n".join(fitting.table(H200, H200_6B))

    _, text = made_once(tmp_path_factory, "preset-table", play)
    return text.split("\n")


@pytest.mark.parametrize("arm", ["baseline", "draft-k3", "ngram-k3", "eagle-k3"])
def test_the_h200_preset_is_within_15_percent_in_tpot_and_10_in_acceptance_length(
    arm: str, table: list[str], fitting: ModuleType
) -> None:
    shown = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[2:]]
    rows = {int(row[1]): row for row in shown if row[0] == arm}
    assert list(rows) == [1, 8, 32]
    for concurrency, row in rows.items():
        real = fitting.real(H200, arm)[concurrency]
        assert float(row[3]) == pytest.approx(real.tpot_s * 1e3, rel=0.15)
        if arm != "baseline":
            assert float(row[6]) == pytest.approx(real.acceptance_length, rel=0.10)


@pytest.mark.parametrize(
    ("method", "tokens"),
    # "GPU KV cache size" of the four launch logs, at --gpu-memory-utilization 0.85.
    [("none", 1_721_792), ("draft_model", 1_636_240), ("ngram", 1_714_112), ("eagle", 1_669_184)],
)
def test_the_h200_preset_holds_as_much_kv_as_the_real_one(method: str, tokens: int) -> None:
    assert H200_6B.kv_tokens(method, 0.85) == pytest.approx(tokens, rel=1e-3)


@pytest.mark.parametrize(
    ("method", "asynchronous", "batch", "low_ms", "high_ms"),
    [
        # Step times published for a 70B on four GH200: TPOT of the baseline, with and without
        # asynchronous scheduling, and step costs of n-gram and draft_model at k = 3.
        ("none", True, 1, 14.1, 14.3),
        ("none", True, 8, 14.6, 14.9),
        ("none", False, 1, 15.3, 15.5),
        ("ngram", False, 1, 17.3, 18.7),
        ("ngram", False, 8, 18.8, 20.1),
        ("draft_model", False, 1, 91.0, 106.5),
    ],
)
def test_the_70b_estimate_steps_as_the_published_study_did(
    method: str, asynchronous: bool, batch: int, low_ms: float, high_ms: float
) -> None:
    depth = 0 if method == "none" else 3
    load = Load(
        tokens=batch * (1 + depth),
        requests=batch,
        context_tokens=200 * batch,
        draft_depth=depth,
        drafted=batch * depth,
    )
    cost = GH200X4_70B.cost(method=method, async_scheduling=asynchronous)
    assert low_ms <= cost.duration_s(load) * 1e3 <= high_ms


@pytest.mark.parametrize(
    ("method", "tokens"), [("none", 513_696), ("ngram", 416_640), ("draft_model", 251_488)]
)
def test_the_70b_estimate_holds_the_published_kv(method: str, tokens: int) -> None:
    assert GH200X4_70B.kv_tokens(method, 0.8) == pytest.approx(tokens, rel=2e-3)


def test_only_the_fitted_preset_is_no_estimate() -> None:
    assert [name for name, preset in PRESETS.items() if not preset.estimate] == ["h200-6b"]


def test_the_documents_table_of_both_sides_is_what_the_fit_prints(table: list[str]) -> None:
    text = (ROOT / "docs/simulated.md").read_text()
    assert "\n".join(table) in text


def test_the_document_names_every_preset_flag_and_fault() -> None:
    text = (ROOT / "docs/simulated.md").read_text()
    names = [*PRESETS, *KNOWN_FLAGS, *NAMES]
    assert [name for name in names if f"`{name}`" not in text] == []
