"""Raw run folders to the index: judges again, with the same pure functions as the walk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import attrs
import duckdb

from specbench.analysis.effects import METRICS, Point, effects
from specbench.artifacts import find_runs
from specbench.errors import StoreError
from specbench.store import correctness_rows, index_rows, store
from specbench.store.anomaly_rows import anomaly_rows
from specbench.store.comparisons import (
    Comparison,
    cell_difference_rows,
    comparisons,
    difference_rows,
)
from specbench.store.judged_run import JudgedDeployment, JudgedRun, judged_deployments


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
    _ingest_correctness(connection, run, deployments)
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
        # A rehearsal is a trial of one arm: nothing is compared in it.
        points = () if run.plan["rehearsal"] else _points(comparison, confirming=confirming)
        found = effects(points)
        told = [index_rows.effect_row(run, comparison, effect) for effect in found]
        store.insert(connection, "effects", told)
        told = [row for effect in found for row in index_rows.repeat_rows(run, comparison, effect)]
        store.insert(connection, "repeats", told)


def _ingest_correctness(
    connection: duckdb.DuckDBPyConnection, run: JudgedRun, deployments: list[JudgedDeployment]
) -> None:
    ruled = correctness_rows.correctness_verdicts(run, deployments)
    for table, found in (
        ("correctness", correctness_rows.correctness_rows(run, ruled)),
        ("arm_correctness", correctness_rows.arm_rows(run, deployments, ruled)),
        ("correctness_controls", correctness_rows.control_rows(run, ruled)),
        ("divergences", correctness_rows.divergence_rows(run, ruled)),
        ("verdicts", correctness_rows.gate_rows(deployments, ruled)),
    ):
        store.insert(connection, table, list(found))


def _points(comparison: Comparison, *, confirming: bool) -> Iterator[Point]:
    """Give every cell's values, without those that a ruling keeps out of effects."""
    barred = comparison.barred()
    for item in comparison.deployments:
        name = item.arm["name"]
        reasons = [v.gate for v in item.verdicts if v.outcome == "fail"]
        if (item.block, name) in barred:
            reasons.append(f"{barred[item.block, name]} differs from the baseline's")
        if item.same_process_as is not None:
            reasons.append(f"the same server process as in {item.same_process_as}")
        if item.split and confirming:
            reasons.append("its cells come from several attempts")
        for cell in item.cells:
            failed = [v.gate for v in cell.judged.verdicts if v.outcome == "fail"]
            excluded = ", ".join([*reasons, *failed])
            for metric in METRICS:
                value = getattr(cell.judged.summary, metric)
                yield Point(
                    block=item.block,
                    arm=name,
                    role=comparison.role(item),  # type: ignore[arg-type]  # planned as one
                    stratum=cell.facts["stratum"],
                    sampling=cell.facts["sampling"],
                    concurrency=cell.facts["concurrency"],
                    arrival_rate=cell.facts.get("arrival_rate"),
                    metric=metric,
                    value=None if excluded else value,
                    excluded=excluded,
                )
