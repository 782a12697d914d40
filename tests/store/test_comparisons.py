"""A run with equalised twins, from its document to the tables and the page."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from specbench.report.content import Content, read_content
from specbench.report.tables.differences import differences_table
from specbench.report.tables.effects import effects_table
from specbench.store.store import opened, rows
from tests.conftest import SMALL, FinishedRun, run_cli, shared_run

TWIN = "baseline-no-async-runner-v1"
GATES = SMALL[SMALL.index("gates:") :].replace("concurrency: 0.3", "concurrency: 0")
DOCUMENT = (
    SMALL[: SMALL.index("correctness")]
    .replace("model: toy, flags", "model: toy, version: 0.23.0, flags")
    .replace("blocks: 2", "blocks: 1")
    .replace("noise_floor: false", "noise_floor: false, equalise: true")
    .replace("concurrency: [1, 4], requests: {1: 6, 4: 12}", "concurrency: [2], requests: {2: 6}")
    + GATES
)


@pytest.fixture(scope="module")
def equalised(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    return shared_run(tmp_path_factory, "equalised", DOCUMENT)


def asked(run: FinishedRun, sql: str) -> list[dict[str, Any]]:
    with opened(run.results) as connection:
        return rows(connection, sql)


@pytest.fixture(scope="module")
def content(equalised: FinishedRun) -> Content:
    with opened(equalised.results) as connection:
        return read_content(connection, equalised.run.name)


def test_an_arm_with_confounds_has_a_shipped_and_an_equalised_effect(
    equalised: FinishedRun,
) -> None:
    found = asked(
        equalised,
        "select arm, comparison, denominator from effects "
        "where metric = 'output_throughput' order by all",
    )
    assert [tuple(row.values()) for row in found] == [
        (TWIN, "shipped", "baseline"),
        ("eagle-k3", "shipped", "baseline"),
        ("ngram-k3", "equalised", TWIN),
        ("ngram-k3", "shipped", "baseline"),
    ]


def test_each_ratio_is_of_its_own_denominator(equalised: FinishedRun) -> None:
    cells = {
        row["arm"]: row["output_throughput"]
        for row in asked(equalised, "select arm, output_throughput from runs")
    }
    for row in asked(
        equalised,
        "select arm, denominator, ratio from repeats where metric = 'output_throughput'",
    ):
        expected = cells[row["arm"]] / cells[row["denominator"]]
        assert math.isclose(row["ratio"], expected, rel_tol=1e-12)


def test_the_twin_takes_the_confound_away(equalised: FinishedRun) -> None:
    found = asked(
        equalised,
        "select comparison, fact, direction, scope from differences where arm = 'ngram-k3' "
        "order by all",
    )
    # Beside n-gram only EAGLE speculates: it keeps async scheduling and runner, and has other
    # KV tokens. A twin has the arm's scheduling and runner, not its memory.
    assert [tuple(row.values()) for row in found] == [
        ("equalised", "kv_cache_tokens", "favours baseline", "common"),
        ("shipped", "async_scheduling", "favours baseline", "asymmetric"),
        ("shipped", "kv_cache_tokens", "favours baseline", "asymmetric"),
        ("shipped", "model_runner", "unclear", "asymmetric"),
    ]


def test_what_differed_travels_with_every_effect(equalised: FinishedRun) -> None:
    found = asked(
        equalised,
        "select comparison, confounds from effects "
        "where arm = 'ngram-k3' and metric = 'output_throughput' order by comparison desc",
    )
    shipped, twinned = (row["confounds"] for row in found)
    said = "async scheduling: on in the baseline, off in the arm: n-gram loses"
    assert [text for text in shipped if text.startswith(said)]
    assert not [text for text in twinned if text.startswith(("async scheduling", "model runner"))]


def test_a_twin_that_keeps_what_it_should_lack_is_not_in_effect(equalised: FinishedRun) -> None:
    found = asked(
        equalised,
        "select observed, required, outcome from verdicts join deployments using (deployment_id) "
        f"where arm = '{TWIN}' and gate in ('in_effect.async_scheduling', 'in_effect.model_runner') "
        "order by observed",
    )
    assert [tuple(row.values()) for row in found] == [
        ("False", "False", "pass"),
        ("V1", "V1", "pass"),
    ]


def test_the_page_shows_both_comparisons_with_what_differed(content: Content) -> None:
    table = effects_table(content)
    assert table.count("<td>baseline</td>") == 3
    assert table.count(f"{TWIN} (equalised)") == 1
    assert "async scheduling (favours baseline)" in table
    assert "KV cache (favours baseline)" in table
    assert "asymmetric" in differences_table(content)


def test_a_controlled_difference_rejects_the_comparison(
    equalised: FinishedRun, tmp_path: Path
) -> None:
    import shutil

    from specbench.store.ingest import ingest

    runs = tmp_path / "runs"
    shutil.copytree(equalised.run.parent, runs)
    (path,) = runs.glob("*/b01-*-eagle-k3-a1/audit.json")
    stored = json.loads(path.read_text())
    for fact in stored["audit"]["facts"]:
        if fact["name"] == "max_model_len":
            fact["value"] = "4096"
    path.write_text(json.dumps(stored))
    results = tmp_path / "results.duckdb"
    ingest(runs, results)
    with opened(results) as connection:
        found = rows(
            connection, "select distinct estimate, missing from effects where arm = 'eagle-k3'"
        )
    assert found == [
        {
            "estimate": None,
            "missing": ["block 1: max_model_len differs from the baseline's"],
        }
    ]


def test_machines_get_no_effect_without_what_differed(equalised: FinishedRun) -> None:
    done = run_cli("report", equalised.run.name, "--results", equalised.results, "--json")
    told = json.loads(done.output)
    assert told["simulated"] is True
    effects = [row for row in told["effects"] if row["metric"] == "output_throughput"]
    kinds = sorted((row["arm"], row["comparison"]) for row in effects)
    assert kinds == [
        (TWIN, "shipped"),
        ("eagle-k3", "shipped"),
        ("ngram-k3", "equalised"),
        ("ngram-k3", "shipped"),
    ]
    by_arm = {(row["arm"], row["comparison"]): row["confounds"] for row in effects}
    assert any(text.startswith("async scheduling") for text in by_arm["ngram-k3", "shipped"])
    assert any(text.startswith("KV cache") for text in by_arm["eagle-k3", "shipped"])
    facts = {(row["arm"], row["fact"]) for row in told["differences"]}
    assert ("ngram-k3", "async_scheduling") in facts
