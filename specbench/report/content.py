"""What a report shows, read from the index: every number on a page comes through here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import duckdb

from specbench.errors import StoreError
from specbench.store.store import rows

Row = dict[str, Any]


@attrs.frozen(kw_only=True)
class Content:
    """Everything of one run."""

    experiment: Row
    arms: tuple[str, ...]
    """Arms in the order of the plan; the baseline and its repeat first."""
    effects: list[Row]
    """Against the baseline as it is served."""
    repeats: list[Row]
    equalised: list[Row]
    """Effects against twins of the baseline that have the arm's own settings."""
    equalised_repeats: list[Row]
    cells: list[Row]
    positions: list[Row]
    requests: list[Row]
    deployments: list[Row]
    differences: list[Row]
    cell_differences: list[Row]
    warnings: list[Row]
    anomalies: list[Row]
    verdicts: list[Row]
    break_evens: list[Row]
    """Step costs over blocks, of both comparisons."""
    correlations: list[Row]
    drift: list[Row]
    nodes: list[Row]
    looked: list[Row]
    """One row; none where nobody looked before."""
    sampled_outputs: list[Row]
    decisions: list[Row]
    """The ruling on each arm and workload, on the declared metric and loads."""
    aa_validity: list[Row]
    traffic_mix: list[Row]
    correctness: list[Row]
    """The gate's verdict on each arm at each concurrency."""
    arm_correctness: list[Row]
    """Each arm's worst verdict, its caveats, and why nothing may be claimed of it."""
    correctness_controls: list[Row]
    divergences: list[Row]
    unservable: list[Row]
    """Arms that were planned and never launched, each with the reasons."""

    @property
    def simulated(self) -> bool:
        """Whether every number comes from a cost model."""
        return bool(self.experiment["simulated"])

    @property
    def load(self) -> tuple[str, str]:
        """What its load points are, and the letter that cells name them by."""
        if json.loads(self.experiment["plan"])["experiment"]["load"]["closed"] is None:
            return "arrival rate (requests/s)", "r"
        return "concurrency (requests in flight)", "c"


def read_content(connection: duckdb.DuckDBPyConnection, run_id: str | None) -> Content:
    """Give the content of a run, of the newest when none is named.

    Raises:
        StoreError: There is no such run.
    """
    chosen = run_id or newest(connection)
    found = rows(connection, "select * from experiments where run_id = ?", [chosen])
    if not found:
        known = [row["run_id"] for row in rows(connection, "select run_id from experiments")]
        raise StoreError(f"no run {chosen!r} in the index", f"known: {', '.join(known) or 'none'}")

    def read(sql: str) -> list[Row]:
        return [_with_load_point(row) for row in rows(connection, sql, [chosen])]

    arms = read(
        "select arm from deployments where run_id = ? group by arm, role, method "
        "order by role <> 'baseline', role <> 'noise_floor', arm"
    )
    return Content(
        experiment=found[0],
        arms=tuple(row["arm"] for row in arms),
        effects=read(_EFFECTS.format(comparison="shipped")),
        repeats=read(_REPEATS.format(comparison="shipped")),
        equalised=read(_EFFECTS.format(comparison="equalised")),
        equalised_repeats=read(_REPEATS.format(comparison="equalised")),
        cells=read(
            "select d.block, d.arm, d.role, d.split, c.* from cells c "
            "join deployments d using (deployment_id) "
            "where d.run_id = ? "
            "order by c.stratum, c.sampling, c.concurrency, c.arrival_rate, d.arm, d.block"
        ),
        positions=read(
            "select arm, stratum, sampling, concurrency, arrival_rate, block, position, rate "
            "from acceptance_positions "
            "where run_id = ? and not rejected order by all"
        ),
        requests=read(
            "select d.arm, d.block, c.stratum, c.sampling, c.concurrency, c.arrival_rate, "
            "r.ttft_s * 1000 as ttft_ms, "
            "r.tpot_s * 1000 as tpot_ms from requests r join cells c using (cell_id) "
            "join deployments d using (deployment_id) "
            "where d.run_id = ? and r.status = 'ok' and not c.rejected"
        ),
        deployments=read(
            "select * from deployments where run_id = ? order by block, place, attempt"
        ),
        differences=read(
            "select comparison, denominator, arm, fact, baseline, arm_value, direction, scope, "
            "meaning, controlled, list(block order by block) as blocks from differences "
            "where run_id = ? group by all "
            "order by comparison desc, denominator, controlled desc, arm, fact"
        ),
        cell_differences=read(
            "select * from cell_differences where run_id = ? "
            "order by denominator, arm, stratum, sampling, concurrency, fact, block"
        ),
        warnings=read(
            "select arm, kind, meaning, fell, count(distinct deployment_id) as deployments, "
            "min(line) as line from warnings join deployments using (deployment_id) "
            "where run_id = ? group by all order by kind, arm, fell"
        ),
        anomalies=read(
            "select * from anomalies where run_id = ? order by kind, arm, stratum, concurrency"
        ),
        verdicts=read(
            "select coalesce(cell_id, deployment_id) as place, gate, outcome, observed, required, "
            "advice from verdicts join deployments using (deployment_id) "
            "where run_id = ? and outcome <> 'pass' order by outcome, place, gate"
        ),
        break_evens=read(
            "select * from break_evens where run_id = ? order by stratum, sampling, concurrency, "
            "arrival_rate, arm, comparison desc"
        ),
        correlations=read(
            "select * from correlations where run_id = ? order by stratum, sampling, concurrency, "
            "arrival_rate, quantity desc, metric"
        ),
        drift=read(
            "select * from drift where run_id = ? "
            "order by stratum, sampling, concurrency, arrival_rate, factor desc"
        ),
        nodes=read("select * from nodes where run_id = ? order by all"),
        looked=read("select * from looked where run_id = ?"),
        sampled_outputs=read(
            "select * from sampled_outputs where run_id = ? "
            "order by stratum, sampling, concurrency, arrival_rate, arm, respect"
        ),
        decisions=read(
            "select * from decisions where run_id = ? "
            "order by stratum, sampling, estimate desc, arm"
        ),
        aa_validity=read("select * from aa_validity where run_id = ? order by stratum, sampling"),
        traffic_mix=read(
            "select * from traffic_mix where run_id = ? "
            "order by sampling, concurrency, arrival_rate, arm"
        ),
        correctness=read("select * from correctness where run_id = ? order by arm, concurrency"),
        arm_correctness=read("select * from arm_correctness where run_id = ? order by arm"),
        correctness_controls=read(
            "select * from correctness_controls where run_id = ? "
            "order by arm, concurrency, not compared, kind, control_arm"
        ),
        divergences=read(
            "select * from divergences where run_id = ? "
            "order by arm, concurrency, explained, pair, prompt_id"
        ),
        unservable=list(_unservable(found[0]["plan"], [row["arm"] for row in arms])),
    )


def _with_load_point(row: Row) -> Row:
    """Give a row with its load point: the concurrency, or the arrival rate of an open load."""
    rate = row.get("arrival_rate")
    return {**row, "load_point": row.get("concurrency") if rate is None else rate}


def _unservable(plan: str, launched: Sequence[str]) -> Iterator[Row]:
    """Give the arms that the engine was known to refuse and that nobody asked to launch."""
    for name, arm in json.loads(plan)["arms"].items():
        if arm["unservable"] and name not in launched:
            yield {"arm": name, "reasons": arm["unservable"]}


def newest(connection: duckdb.DuckDBPyConnection) -> str:
    """Give the run that was measured last.

    Raises:
        StoreError: There is none.
    """
    found = rows(
        connection,
        "select run_id from experiments left join deployments using (run_id) "
        "left join cells using (deployment_id) group by run_id "
        "order by max(started_unix_s) desc nulls last limit 1",
    )
    if not found:
        raise StoreError("the index holds no run", "run an experiment first")
    return str(found[0]["run_id"])


_EFFECTS = """
select e.*, a.correctness, a.explanation, a.caveats, a.barred
from effects e left join arm_correctness a using (run_id, arm)
where run_id = ? and comparison = '{comparison}'
order by stratum, concurrency, arrival_rate, arm, metric
"""

_REPEATS = """
select r.*, c.acceptance_rate, c.acceptance_length, c.tokens_per_step, d.role
from repeats r
join deployments d on d.run_id = r.run_id and d.block = r.block and d.arm = r.arm
join cells c on c.deployment_id = d.deployment_id and c.stratum = r.stratum
and c.sampling = r.sampling
and c.concurrency is not distinct from r.concurrency
and c.arrival_rate is not distinct from r.arrival_rate
where r.run_id = ? and r.metric = 'output_throughput' and r.comparison = '{comparison}'
order by r.stratum, r.concurrency, r.arrival_rate, r.arm, r.block
"""
