"""From stored evidence to what may be claimed, in the index."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import duckdb
import pytest

from specbench.artifacts import RunFolder
from specbench.experiment.decision import Decision
from specbench.store.decision_rows import declared
from specbench.store.ingest import ingest
from specbench.store.judged_run import JudgedRun
from specbench.store.store import opened, rows
from tests.conftest import FinishedRun

SIMULATED = "SIMULATED: the number of a cost model, no recommendation for production"


def asked(results: Path, sql: str) -> list[dict[str, Any]]:
    with opened(results) as connection:
        return rows(connection, sql)


@pytest.fixture(scope="module")
def spoiled(finished: FinishedRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run with a caveat on n-gram, a mix, a rejected cell, and blocks on two nodes."""
    folder = tmp_path_factory.mktemp("spoiled")
    run = folder / "runs" / finished.run.name
    shutil.copytree(finished.run, run)
    plan = json.loads((run / "plan.json").read_text())
    plan["arms"]["ngram-k3"]["caveats"] = ["acceptance is synthetic"]
    plan["experiment"]["decision"] |= {"at": [1], "traffic_mix": {"mixed": 1.0}}
    (run / "plan.json").write_text(json.dumps(plan))
    for path in run.glob("b*-eagle-k3-a1/launch.json"):
        launch = json.loads(path.read_text())
        path.write_text(json.dumps(launch | {"machine": {"host": "elsewhere"}}))
    (audit,) = run.glob("b02-*-eagle-k3-a1/audit.json")
    stored = json.loads(audit.read_text())
    for fact in stored["audit"]["facts"]:
        if fact["name"] == "max_model_len":
            fact["value"] = "4096"
    audit.write_text(json.dumps(stored))
    ingest(run.parent, folder / "results.duckdb")
    return folder / "results.duckdb"


def test_a_decision_is_the_geometric_mean_over_every_load_of_its_blocks(
    finished: FinishedRun,
) -> None:
    found = asked(
        finished.results,
        "select d.arm, d.blocks, d.loads, d.estimate, exp(avg(ln(r.ratio))) as expected "
        "from decisions d join repeats r using (run_id, arm, stratum, sampling, metric) "
        "where r.comparison = 'shipped' group by all order by d.arm",
    )
    assert [row["arm"] for row in found] == ["eagle-k3", "ngram-k3"]
    for row in found:
        assert (row["blocks"], row["loads"]) == (2, [1, 4])
        assert row["estimate"] == pytest.approx(row["expected"])


def test_two_simulated_blocks_of_a_screening_claim_nothing(finished: FinishedRun) -> None:
    found = asked(finished.results, "select gain, reasons, regression, beside from decisions")
    assert {row["gain"] for row in found} == {"not_shown"}
    assert {row["regression"] for row in found} <= {"unresolved", "present"}
    for row in found:
        assert "2 blocks: a claim needs 5" in row["reasons"]
        assert SIMULATED in row["beside"]
        assert "no A/A: the design has no noise floor" in row["beside"]


def test_a_decision_counts_only_the_declared_loads(spoiled: Path) -> None:
    found = asked(
        spoiled,
        "select d.loads, d.estimate, e.estimate as at_1 from decisions d "
        "join effects e using (run_id, arm, stratum, sampling, metric) "
        "where arm = 'ngram-k3' and e.concurrency = 1 and e.comparison = 'shipped'",
    )
    assert found[0]["loads"] == [1]
    assert found[0]["estimate"] == pytest.approx(found[0]["at_1"])


def test_a_synthetic_arm_and_one_on_a_node_of_its_own_are_barred(spoiled: Path) -> None:
    found = asked(spoiled, "select arm, reasons, beside from decisions order by arm")
    eagle, ngram = found
    assert "acceptance is synthetic" in ngram["reasons"]
    assert "acceptance is synthetic" in ngram["beside"]
    assert "it ran on elsewhere only, where no baseline did" in eagle["reasons"]


def test_what_a_ruling_keeps_out_is_named_and_not_averaged(spoiled: Path) -> None:
    (found,) = asked(spoiled, "select blocks, missing from decisions where arm = 'eagle-k3'")
    assert found["blocks"] == 1
    assert found["missing"] == ["load 1: block 2: max_model_len differs from the baseline's"]


def test_a_traffic_mix_of_one_stratum_is_its_own_ratio_of_times(spoiled: Path) -> None:
    found = asked(
        spoiled,
        "select m.speedup, e.estimate, m.strata, m.shares from traffic_mix m "
        "join effects e using (run_id, arm, sampling, concurrency) "
        "where e.metric = 'window_s_per_request' and e.comparison = 'shipped'",
    )
    assert len(found) == 4
    for row in found:
        assert row["speedup"] == pytest.approx(1 / row["estimate"])
        assert (row["strata"], row["shares"]) == (["mixed"], [1.0])


def test_nodes_and_drift_are_described_in_every_cell(spoiled: Path) -> None:
    hosts = asked(spoiled, "select distinct arm, host from nodes where host = 'elsewhere'")
    assert hosts == [{"arm": "eagle-k3", "host": "elsewhere"}]
    found = asked(spoiled, "select concurrency, factor from drift order by all")
    assert [tuple(row.values()) for row in found] == [
        (1, "hours"),
        (1, "place"),
        (4, "hours"),
        (4, "place"),
    ]


def test_a_rejected_cell_is_listed_with_every_failed_ruling(
    finished: FinishedRun, tmp_path: Path
) -> None:
    results = Path(shutil.copy(finished.results, tmp_path / "r.duckdb"))
    with duckdb.connect(str(results)) as connection:
        connection.execute(
            "update verdicts set outcome = 'fail', observed = '0.5', required = '>= 0.99' "
            "where gate = 'success_rate' and cell_id = (select min(cell_id) from cells)"
        )
    found = asked(
        results,
        "select reasons, cell_id = (select min(cell_id) from cells) as that from rejected_cells",
    )
    assert found == [{"reasons": ["success_rate: 0.5, required >= 0.99"], "that": True}]


def test_a_run_from_before_there_was_a_decision_has_the_default_one(finished: FinishedRun) -> None:
    assert declared(JudgedRun(RunFolder(finished.run), {"experiment": {}})) == Decision()


def test_percentiles_of_few_requests_give_no_effect_and_say_why(finished: FinishedRun) -> None:
    found = asked(
        finished.results,
        "select distinct estimate, missing[1] as said from effects "
        "where metric = 'ttft_p95_s' and concurrency = 4",
    )
    assert found == [{"estimate": None, "said": "block 1: p95 withheld: 12 successes, under 60"}]
