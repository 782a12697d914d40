"""Raw run folders to the index: judges again, with the same pure functions as the walk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import cattrs
import duckdb

import specbench
from specbench.analysis.effects import METRICS, Effect, Point, effects
from specbench.artifacts import (
    AttemptFolder,
    CellFolder,
    RunFolder,
    file_digest,
    find_runs,
    read_json,
)
from specbench.engines import ENGINES
from specbench.experiment.model import Gates
from specbench.facts import Audit, CounterSnapshot, RequestRow, Verdict
from specbench.judge import cells as cell_rules
from specbench.judge import effective
from specbench.judge.confounds import differences
from specbench.judge.window import Judged, judge_window
from specbench.methods import Confound, Counting, Expected
from specbench.observe.metrics import parse
from specbench.store import store
from specbench.units import seconds

Row = dict[str, Any]


def ingest(runs: Path, results: Path) -> int:
    """Build the index anew from every run below a folder, and give their number."""
    found = find_runs(runs)
    with store.rebuilt(results) as connection:
        for run in found:
            _ingest_run(connection, _Run.of(run))
    return len(found)


@attrs.frozen
class _Run:
    """A run folder with its plan."""

    folder: RunFolder
    plan: Row

    @classmethod
    def of(cls, folder: RunFolder) -> _Run:
        return cls(folder, read_json(folder.path / "plan.json"))

    @property
    def run_id(self) -> str:
        return self.folder.path.name

    @property
    def experiment(self) -> Row:
        found: Row = self.plan["experiment"]
        return found

    def arm(self, deployment: str) -> Row:
        """Give the planned arm of a deployment's name."""
        found: Row = self.plan["arms"][deployment.split("-", 2)[2]]
        return found


@attrs.frozen(kw_only=True)
class _Cell:
    """A judged cell."""

    folder: CellFolder
    cell_id: str
    facts: Row
    rows: tuple[RequestRow, ...]
    before: CounterSnapshot
    after: CounterSnapshot
    judged: Judged


@attrs.frozen(kw_only=True)
class _Deployment:
    """A closed attempt and what is ruled on it."""

    attempt: AttemptFolder
    deployment_id: str
    block: int
    place: int
    arm: Row
    closing: Row
    audit: Audit | None
    verdicts: tuple[Verdict, ...]
    cells: tuple[_Cell, ...]
    split: bool


def _ingest_run(connection: duckdb.DuckDBPyConnection, run: _Run) -> None:
    deployments = list(_deployments(run))
    store.insert(connection, "experiments", [_experiment_row(run)])
    store.insert(connection, "deployments", [_deployment_row(run, item) for item in deployments])
    store.insert(connection, "facts", [row for item in deployments for row in _fact_rows(item)])
    pairs = [(item, cell) for item in deployments for cell in item.cells]
    store.insert(connection, "cells", [_cell_row(item, cell) for item, cell in pairs])
    for _, cell in pairs:
        store.insert(connection, "requests", list(_request_rows(cell)))
        store.insert(connection, "counters", list(_counter_rows(run, cell)))
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
        connection, "verdicts", [row for item in deployments for row in _verdict_rows(item)]
    )
    differing = list(_difference_rows(run, deployments))
    store.insert(connection, "differences", differing)
    barred = {(row["block"], row["arm"]): row["fact"] for row in differing if row["controlled"]}
    found = effects(_points(deployments, barred))
    store.insert(connection, "effects", [_effect_row(run, effect) for effect in found])
    store.insert(
        connection, "repeats", [row for effect in found for row in _repeat_rows(run, effect)]
    )


def _deployments(run: _Run) -> Iterator[_Deployment]:
    attempts = [item for item in run.folder.attempts() if item.closing() is not None]
    holders = [item.deployment for item in attempts if item.cells()]
    for attempt in attempts:
        arm = run.arm(attempt.deployment)
        block, place, _ = attempt.deployment.removeprefix("b").split("-", 2)
        found = attempt.audit()
        expected = cattrs.structure(arm["expected"], Expected)
        yield _Deployment(
            attempt=attempt,
            deployment_id=f"{run.run_id}/{attempt.path.name}",
            block=int(block),
            place=int(place),
            arm=arm,
            closing=attempt.closing() or {},
            audit=found,
            verdicts=effective.judge(found, expected) if found else (),
            cells=tuple(_cells(run, attempt, arm, expected)),
            split=holders.count(attempt.deployment) > 1,
        )


def _cells(run: _Run, attempt: AttemptFolder, arm: Row, expected: Expected) -> Iterator[_Cell]:
    counting = cattrs.structure(arm["counting"], Counting) if arm["counting"] else None
    required = cattrs.structure(run.experiment["gates"], Gates)
    names = ENGINES[run.experiment["target"]["engine"]].counters()
    for name, folder in attempt.cells().items():
        facts = folder.facts()
        rows = folder.rows()
        before, after = map(parse, folder.counters())
        judged = judge_window(
            rows,
            concurrency=facts["concurrency"],
            before=before,
            after=after,
            settled=facts["settled"],
            names=names,
            expected=expected,
            counting=counting,
            required=required,
            more=_same_prompts(run, attempt, facts),
        )
        yield _Cell(
            folder=folder,
            cell_id=f"{run.run_id}/{attempt.path.name}/{name}",
            facts=facts,
            rows=rows,
            before=before,
            after=after,
            judged=judged,
        )


def _same_prompts(run: _Run, attempt: AttemptFolder, facts: Row) -> tuple[Verdict, ...]:
    others = [cell.facts() for cell in attempt.cells().values()]
    counts = {
        other["concurrency"]: other["requests"]
        for other in others
        if (other["stratum"], other["sampling"]) == (facts["stratum"], facts["sampling"])
    }
    verdict = cell_rules.same_prompts(counts, run.plan["prompts"][facts["stratum"]])
    return (verdict,) if verdict else ()


def _experiment_row(run: _Run) -> Row:
    origin = read_json(run.folder.path / "provenance.json")
    document = run.folder.path / "experiment.yaml"
    target = run.experiment["target"]
    return {
        "run_id": run.run_id,
        "name": run.experiment["name"],
        "question": run.experiment["question"],
        "stage": run.experiment["stage"],
        "engine": target["engine"],
        "engine_version": target["version"],
        "simulated": run.plan["simulated"],
        "model": target["model"],
        "specbench_version": origin["software"]["specbench"],
        "git": origin["software"]["git"],
        "host": origin["machine"]["host"],
        "cpu": origin["machine"]["cpu"],
        "gpus": origin["machine"]["gpus"],
        "document": document.read_text(encoding="utf-8"),
        "plan": json.dumps(run.plan),
        "provenance": json.dumps(origin),
        "source_sha256": file_digest(document),
    }


def _deployment_row(run: _Run, item: _Deployment) -> Row:
    launch_path = item.attempt.path / "launch.json"
    launch = read_json(launch_path) if launch_path.exists() else {}
    cause = item.closing.get("cause") or {}
    return {
        "deployment_id": item.deployment_id,
        "run_id": run.run_id,
        "block": item.block,
        "place": item.place,
        "arm": item.arm["name"],
        "method": item.arm["arm"]["method"],
        "role": item.arm["role"],
        "attempt": item.attempt.attempt,
        "status": item.closing["status"],
        "reason": item.closing.get("reason"),
        "cause_kind": cause.get("kind"),
        "cause_line": cause.get("line"),
        "remedy": cause.get("remedy"),
        "ready_s": item.closing.get("ready_s"),
        "exit_code": item.closing.get("exit_code"),
        "split": item.split,
        "host": launch.get("machine", {}).get("host"),
        "command": launch.get("argv"),
        "caveats": item.arm["caveats"],
        "source_sha256": file_digest(item.attempt.path / "deployment.json"),
    }


def _fact_rows(item: _Deployment) -> Iterator[Row]:
    for fact in item.audit.facts if item.audit else ():
        yield {
            "deployment_id": item.deployment_id,
            "fact": fact.name,
            "value": fact.value,
            "source": fact.source,
        }


def _cell_row(item: _Deployment, cell: _Cell) -> Row:
    judged = cell.judged
    row = {
        "cell_id": cell.cell_id,
        "deployment_id": item.deployment_id,
        "stratum": cell.facts["stratum"],
        "sampling": cell.facts["sampling"],
        "concurrency": cell.facts["concurrency"],
        "rejected": judged.rejected,
        "clock": cell.facts["clock"],
        "started_unix_s": cell.facts["started_unix_s"],
        "judged_by": specbench.__version__,
        "source_sha256": file_digest(cell.folder.path / "cell.json"),
        **attrs.asdict(judged.summary),
    }
    if judged.acceptance:
        row |= {
            "drafts": judged.acceptance.drafts,
            "drafted_tokens": judged.acceptance.drafted,
            "accepted_tokens": judged.acceptance.accepted,
            "accepted_per_position": judged.acceptance.per_position,
        }
    if judged.ratios:
        ratios = attrs.asdict(judged.ratios)
        row |= {"acceptance_by_position": ratios.pop("per_position"), **ratios}
    return row


def _request_rows(cell: _Cell) -> Iterator[Row]:
    for row in cell.rows:
        first = row.first_tokens_ns
        yield {
            **attrs.asdict(row),
            "cell_id": cell.cell_id,
            "events": len(row.event_ns),
            "ttft_s": cell_rules.ttft_s(row),
            "first_tokens_s": None if first is None else seconds(first - row.sent_ns),
            "tpot_s": cell_rules.tpot_s(row),
            "e2e_s": cell_rules.e2e_s(row),
            "source": "specbench",
        }


def _counter_rows(run: _Run, cell: _Cell) -> Iterator[Row]:
    label = ENGINES[run.experiment["target"]["engine"]].counters().engine_label
    for key in sorted({*cell.before.series, *cell.after.series}):
        name, labels = key
        if not name.endswith("_total") or label not in dict(labels):
            continue
        yield {
            "cell_id": cell.cell_id,
            "series": name,
            "engine": dict(labels)[label],
            "labels": ",".join(f"{k}={v}" for k, v in labels if k != label),
            "before": cell.before.series.get(key),
            "after": cell.after.series.get(key),
        }


def _verdict_rows(item: _Deployment) -> Iterator[Row]:
    ruled = [(None, verdict) for verdict in item.verdicts] + [
        (cell.cell_id, verdict) for cell in item.cells for verdict in cell.judged.verdicts
    ]
    for cell_id, verdict in ruled:
        yield {
            "deployment_id": item.deployment_id,
            "cell_id": cell_id,
            **attrs.asdict(verdict),
            "judged_by": specbench.__version__,
        }


def _difference_rows(run: _Run, deployments: Sequence[_Deployment]) -> Iterator[Row]:
    audits = {item.block: item.audit for item in deployments if item.arm["role"] == "baseline"}
    for item in deployments:
        base = audits.get(item.block)
        if item.arm["role"] == "baseline" or base is None or item.audit is None:
            continue
        named = cattrs.structure(item.arm["confounds"], tuple[Confound, ...])
        for difference in differences(base, item.audit, named):
            yield {
                "run_id": run.run_id,
                "block": item.block,
                "arm": item.arm["name"],
                "fact": difference.fact,
                "baseline": difference.baseline,
                "arm_value": difference.arm,
                "meaning": difference.meaning,
                "controlled": difference.controlled,
            }


def _points(
    deployments: Sequence[_Deployment], barred: dict[tuple[int, str], str]
) -> Iterator[Point]:
    for item in deployments:
        name = item.arm["name"]
        fact = barred.get((item.block, name))
        for cell in item.cells:
            failed = [v.gate for v in cell.judged.verdicts if v.outcome == "fail"]
            excluded = f"{fact} differs from the baseline's" if fact else ", ".join(failed)
            for metric in METRICS:
                value = getattr(cell.judged.summary, metric)
                yield Point(
                    block=item.block,
                    arm=name,
                    role=item.arm["role"],
                    stratum=cell.facts["stratum"],
                    sampling=cell.facts["sampling"],
                    concurrency=cell.facts["concurrency"],
                    metric=metric,
                    value=None if excluded else value,
                    excluded=excluded,
                )


def _effect_row(run: _Run, effect: Effect) -> Row:
    return {
        "run_id": run.run_id,
        **attrs.asdict(effect, filter=lambda field, _: field.name not in ("repeats", "interval")),
        "blocks": len(effect.repeats),
        "low": effect.interval.low if effect.interval else None,
        "high": effect.interval.high if effect.interval else None,
        "judged_by": specbench.__version__,
    }


def _repeat_rows(run: _Run, effect: Effect) -> Iterator[Row]:
    for repeat in effect.repeats:
        yield {
            "run_id": run.run_id,
            "arm": effect.arm,
            "stratum": effect.stratum,
            "sampling": effect.sampling,
            "concurrency": effect.concurrency,
            "metric": effect.metric,
            "block": repeat.block,
            "baseline": repeat.baseline,
            "arm_value": repeat.arm,
            "ratio": repeat.ratio,
        }
