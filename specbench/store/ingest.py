"""Raw run folders to the index: judges again, with the same pure functions as the walk."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import attrs
import duckdb

from specbench.analysis.effects import paired, summarised
from specbench.artifacts import find_runs
from specbench.errors import StoreError
from specbench.judge.correctness import ArmVerdict
from specbench.looks import looks
from specbench.store import correctness_rows, index_rows, store
from specbench.store.anomaly_rows import anomaly_rows
from specbench.store.comparisons import (
    Comparison,
    cell_difference_rows,
    comparisons,
    difference_rows,
)
from specbench.store.correctness_rows import blocked_arms
from specbench.store.decision_rows import decision_rows, declared, nuisance_rows
from specbench.store.explanatory_rows import correlation_rows, step_cost_rows
from specbench.store.judged_run import JudgedDeployment, JudgedRun, judged_deployments
from specbench.store.points import Usable, cells_of, placed, points
from specbench.store.sampled_outputs import sampled_rows


@attrs.frozen(kw_only=True)
class Ingested:
    """What an index was built from."""

    runs: int
    skipped: tuple[str, ...]
    """Runs that cannot be read, and why. They do not hide the others."""


def ingest(runs: Path, results: Path) -> Ingested:
    """Build the index anew from every run below a folder.

    Raises:
        StoreError: There is no run, or the index cannot be written.
    """
    found = find_runs(runs)
    if not found:
        raise StoreError(f"no run below {runs}", "name the folder of runs with --runs")
    skipped = []
    with store.rebuilt(results) as connection:
        for run in found:
            connection.begin()
            try:
                _ingest_run(connection, JudgedRun.of(run))
            except (StoreError, OSError, LookupError, ValueError) as error:
                connection.rollback()
                skipped.append(f"{run.path.name} is left out: {error}")
            else:
                connection.commit()
    return Ingested(runs=len(found) - len(skipped), skipped=tuple(skipped))


def _ingest_run(connection: duckdb.DuckDBPyConnection, run: JudgedRun) -> None:
    deployments = list(judged_deployments(run))
    store.insert(connection, "experiments", [index_rows.experiment_row(run)])
    store.insert(
        connection, "deployments", [index_rows.deployment_row(run, item) for item in deployments]
    )
    store.insert(
        connection, "facts", [row for item in deployments for row in index_rows.fact_rows(item)]
    )
    warned = [row for item in deployments for row in index_rows.warning_rows(item)]
    store.insert(connection, "warnings", warned)
    pairs = [(item, cell) for item in deployments for cell in item.cells]
    store.insert(connection, "cells", [index_rows.cell_row(item, cell) for item, cell in pairs])
    for _, cell in pairs:
        store.insert(connection, "requests", list(index_rows.request_rows(cell)))
        store.insert(connection, "counters", list(index_rows.counter_rows(run, cell)))
    # First: it tells the line of a damaged capture.
    blocked = blocked_arms(_ingest_correctness(connection, run, deployments))
    store.insert(
        connection,
        "captures",
        [
            {"deployment_id": item.deployment_id, **capture}
            for item in deployments
            for capture in item.attempt.captures()
        ],
    )
    store.insert(
        connection,
        "verdicts",
        [row for item in deployments for row in index_rows.verdict_rows(item)],
    )
    store.insert(connection, "verdicts", list(index_rows.clock_rows(deployments)))
    store.insert(connection, "anomalies", list(anomaly_rows(run, deployments)))
    confirming = run.experiment["stage"] == "confirmation"
    for comparison in comparisons(deployments):
        told = list(difference_rows(run.run_id, comparison))
        store.insert(connection, "differences", told)
        told = list(cell_difference_rows(run.run_id, comparison))
        store.insert(connection, "cell_differences", told)
        if comparison.kind == "shipped":
            store.insert(connection, "sampled_outputs", sampled_rows(run, comparison))
        # A rehearsal is a trial of one arm: nothing is compared in it.
        if not run.plan["rehearsal"]:
            cells = cells_of(comparison, confirming=confirming)
            _ingest_effects(connection, run, comparison, cells, blocked)
    seen = [{"run_id": run.run_id, **attrs.asdict(look)} for look in looks(run.folder)]
    store.insert(connection, "looks", seen)


def _ingest_effects(
    connection: duckdb.DuckDBPyConnection,
    run: JudgedRun,
    comparison: Comparison,
    cells: tuple[Usable, ...],
    blocked: Mapping[str, str],
) -> None:
    pairs = paired(points(comparison, cells))
    found = [summarised(pair) for pair in pairs]
    told = [index_rows.effect_row(run, comparison, effect) for effect in found]
    store.insert(connection, "effects", told)
    told = [row for effect in found for row in index_rows.repeat_rows(run, comparison, effect)]
    store.insert(connection, "repeats", told)
    by_block, over_blocks = step_cost_rows(run.run_id, comparison, cells)
    store.insert(connection, "step_costs", by_block)
    store.insert(connection, "break_evens", over_blocks)
    if comparison.kind != "shipped":
        # Equalised effects explain; what is served is decided on as it is shipped.
        return
    store.insert(connection, "correlations", correlation_rows(run.run_id, comparison, found))
    values = list(placed(cells, declared(run).metric))
    ruled = decision_rows(run, comparison, pairs, [value for _, value in values], blocked=blocked)
    for table in ("decisions", "decision_repeats", "aa_validity", "traffic_mix"):
        store.insert(connection, table, getattr(ruled, table))
    drifts, on_nodes = nuisance_rows(run, values)
    store.insert(connection, "drift", drifts)
    store.insert(connection, "nodes", on_nodes)


def _ingest_correctness(
    connection: duckdb.DuckDBPyConnection, run: JudgedRun, deployments: list[JudgedDeployment]
) -> tuple[ArmVerdict, ...]:
    ruled = correctness_rows.correctness_verdicts(run, deployments)
    for table, found in (
        ("correctness", correctness_rows.correctness_rows(run, ruled)),
        ("arm_correctness", correctness_rows.arm_rows(run, deployments, ruled)),
        ("correctness_controls", correctness_rows.control_rows(run, ruled)),
        ("divergences", correctness_rows.divergence_rows(run, ruled)),
        ("verdicts", correctness_rows.gate_rows(deployments, ruled)),
    ):
        store.insert(connection, table, list(found))
    return ruled
