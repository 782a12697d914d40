"""What may be claimed of a run, as rows: decisions, A/A validity, traffic mix, nuisances, looks."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import cattrs
import numpy as np

import specbench
from specbench.analysis.bootstrap import bootstrap
from specbench.analysis.decision import WorkloadDecision, decisions
from specbench.analysis.drift import Placed, drift, never_shared, nodes
from specbench.analysis.effects import Paired
from specbench.analysis.intervals import spread
from specbench.analysis.noise_floor import NoiseFloor, noise_floors
from specbench.analysis.traffic_mix import traffic_mix
from specbench.analysis.workload_gains import WorkloadGains, workload_gains
from specbench.experiment.decision import Decision
from specbench.store.comparisons import Comparison, LoadPoint
from specbench.store.judged_run import JudgedRun

Row = dict[str, Any]
SIMULATED = "SIMULATED: the number of a cost model, no recommendation for production"


@attrs.frozen(kw_only=True)
class DecisionRows:
    """Rows by table."""

    decisions: list[Row]
    decision_repeats: list[Row]
    aa_validity: list[Row]
    traffic_mix: list[Row]


def declared(run: JudgedRun) -> Decision:
    """Give the declared decision of a run; the default of one from before there was any."""
    return cattrs.structure(run.experiment.get("decision", {}), Decision)


def decision_rows(
    run: JudgedRun,
    comparison: Comparison,
    pairs: Sequence[Paired],
    values: Sequence[Placed],
    blocked: Mapping[str, str],
) -> DecisionRows:
    """Rule on the shipped comparison.

    `blocked` gives the arms whose correctness is blocked, with the reason.
    """
    decision = declared(run)
    gains = workload_gains(pairs, decision.metric, decision.at or _loads(run, pairs))
    floors = noise_floors(gains, decision.aa_spread)
    barred = _barred(comparison, blocked, values)
    ruled = decisions(gains, floors, decision, stage=run.experiment["stage"], barred=barred)
    return DecisionRows(
        decisions=[
            _decision_row(run, decision, comparison, one, barred, has_floor=bool(floors))
            for one in ruled
        ],
        decision_repeats=[
            {**_place(run, item), "block": block, "gain": gain}
            for item in gains
            if item.role in ("arm", "noise_floor")
            for block, gain in item.gains.items()
        ],
        aa_validity=[_floor_row(run, floor) for floor in floors],
        traffic_mix=list(_mix_rows(run, pairs, decision.traffic_mix)),
    )


def nuisance_rows(
    run: JudgedRun, values: Sequence[tuple[LoadPoint, Placed]]
) -> tuple[list[Row], list[Row]]:
    """Give the rows of drift and of nodes."""
    metric = declared(run).metric
    by_cell: dict[LoadPoint, list[Placed]] = defaultdict(list)
    for point, value in values:
        by_cell[point].append(value)
    drifts, on_nodes = [], []
    for point, found in by_cell.items():
        names = ("stratum", "sampling", "concurrency", "arrival_rate")
        place = {
            "run_id": run.run_id,
            **dict(zip(names, point, strict=True)),
            "metric": metric,
        }
        for factor in ("place", "hours"):
            one = drift(found, factor)
            bounds = attrs.asdict(one.interval) if one.interval else {}
            told = attrs.asdict(one, filter=lambda field, _: field.name != "interval")
            drifts.append({**place, **told, **bounds})
        on_nodes += [{**place, **attrs.asdict(node)} for node in nodes(found)]
    return drifts, on_nodes


def _loads(run: JudgedRun, pairs: Sequence[Paired]) -> tuple[float, ...]:
    """Give every load point: the declared ones, of a trace the measured ones."""
    load = run.experiment["load"]
    asked = load["closed"]["concurrency"] if load["closed"] else load["open"]["rate"]
    measured = sorted({pair.load for pair in pairs if pair.load is not None})
    return tuple(asked or measured)


def _barred(
    comparison: Comparison, blocked: Mapping[str, str], values: Sequence[Placed]
) -> Mapping[str, tuple[str, ...]]:
    """Give what keeps each arm from every claim."""
    found: dict[str, list[str]] = defaultdict(list)
    for item in comparison.deployments:
        found[item.arm["name"]] += item.arm["caveats"]
    for arm, reason in blocked.items():
        found[arm].append(f"correctness is blocked: {reason}")
    plain = {
        item.arm["name"]
        for item in comparison.deployments
        if item.arm["role"] in ("baseline", "noise_floor")
    }
    for arm, reason in never_shared(values, plain).items():
        found[arm].append(reason)
    return {arm: tuple(dict.fromkeys(reasons)) for arm, reasons in found.items()}


def _place(run: JudgedRun, gains: WorkloadGains) -> Row:
    return {
        "run_id": run.run_id,
        "arm": gains.arm,
        "stratum": gains.stratum,
        "sampling": gains.sampling,
        "metric": gains.metric,
    }


def _points(run: JudgedRun, gains: WorkloadGains) -> list[LoadPoint]:
    """Give the load points that a decision rests on."""
    return [
        (*gains.workload, int(load), None)
        if run.experiment["load"]["closed"]
        else (*gains.workload, None, load)
        for load in gains.loads
    ]


def _decision_row(
    run: JudgedRun,
    decision: Decision,
    comparison: Comparison,
    one: WorkloadDecision,
    barred: Mapping[str, Sequence[str]],
    *,
    has_floor: bool,
) -> Row:
    gains = one.gains
    values = list(gains.gains.values())
    drawn = bootstrap([math.log(value) for value in values])
    beside = [
        *barred.get(gains.arm, ()),
        *comparison.confounds(gains.arm, _points(run, gains), list(gains.gains)),
        *([] if has_floor else ["no A/A: the design has no noise floor"]),
        *([SIMULATED] if run.plan["simulated"] else []),
    ]
    return {
        **_place(run, gains),
        "loads": gains.loads,
        "blocks": len(values),
        "estimate": one.estimate,
        "median": float(np.median(values)) if values else None,
        "spread": spread(values),
        "low": one.interval.low if one.interval else None,
        "high": one.interval.high if one.interval else None,
        "interval_note": one.interval_note,
        "bootstrap_low": drawn.interval.low if drawn else None,
        "bootstrap_high": drawn.interval.high if drawn else None,
        "bootstrap_coverage": drawn.coverage if drawn else None,
        "p_value": one.p_value,
        "p_holm": one.p_holm,
        "comparisons": one.comparisons,
        "materiality": decision.materiality,
        "gain": one.gain,
        "reasons": one.reasons,
        "regression_limit": decision.regression,
        "regression_low": one.regression_low,
        "regression": one.regression,
        "within_best": one.within_best,
        "weak": gains.weak,
        "missing": gains.missing,
        "beside": beside,
        "judged_by": specbench.__version__,
    }


def _floor_row(run: JudgedRun, floor: NoiseFloor) -> Row:
    return {
        **_place(run, floor.gains),
        "blocks": len(floor.gains.gains),
        "estimate": floor.estimate,
        "low": floor.interval.low if floor.interval else None,
        "high": floor.interval.high if floor.interval else None,
        "p_holm": floor.p_holm,
        "spread": floor.spread,
        "spread_bound": floor.spread_bound,
        "outcome": floor.outcome,
        "reason": floor.reason,
    }


def _mix_rows(
    run: JudgedRun, pairs: Sequence[Paired], shares: Mapping[str, float]
) -> Iterator[Row]:
    for mix in traffic_mix(pairs, shares):
        yield {
            "run_id": run.run_id,
            **attrs.asdict(mix, filter=lambda field, _: field.name not in ("shares", "speedups")),
            "strata": list(shares),
            "shares": list(shares.values()),
            "blocks": len(mix.speedups),
            "low": mix.interval.low if mix.interval else None,
            "high": mix.interval.high if mix.interval else None,
        }
