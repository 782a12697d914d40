"""Judged runs as rows of the index's tables."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

import specbench
from specbench.analysis.effects import Effect
from specbench.judge import cells as cell_rules
from specbench.judge.counters import prefix_hit_rate
from specbench.judge.samples import clock_verdicts
from specbench.store.comparisons import Comparison
from specbench.store.families import families
from specbench.store.judged_run import JudgedCell, JudgedDeployment, JudgedRun
from specbench.whole_files import file_digest, read_json

Row = dict[str, Any]
_NESTED = ("repeats", "interval", "bootstrap")
"""Fields of an effect that have columns or a table of their own."""


def experiment_row(run: JudgedRun) -> Row:
    """Give the row of a run."""
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
        "rehearsal": run.plan["rehearsal"],
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


def deployment_row(run: JudgedRun, item: JudgedDeployment) -> Row:
    """Give the row of a launched server."""
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
        "host": item.host,
        "same_process_as": item.same_process_as,
        "command": launch.get("argv"),
        "every_step_drafts": (item.arm["counting"] or {}).get("every_step_drafts"),
        "caveats": item.caveats,
        "family": families(run.plan["arms"])[item.arm["name"]],
        "longest_draft": item.arm["expected"]["longest_draft"] or None,
        "source_sha256": file_digest(item.attempt.path / "deployment.json"),
    }


def fact_rows(item: JudgedDeployment) -> Iterator[Row]:
    """Give what a server said of itself."""
    for fact in item.audit.facts if item.audit else ():
        yield {
            "deployment_id": item.deployment_id,
            "fact": fact.name,
            "value": fact.value,
            "source": fact.source,
        }


def warning_rows(item: JudgedDeployment) -> Iterator[Row]:
    """Give what a server warned of, from its launch to its end."""
    for warning in item.closing.get("warnings", ()):
        fell = item.fell.get(warning["line"])
        yield {
            "deployment_id": item.deployment_id,
            **warning,
            "fell": str(fell) if fell is not None else None,
        }


def cell_row(item: JudgedDeployment, cell: JudgedCell) -> Row:
    """Give the row of a measured window."""
    judged = cell.judged
    reuse = [share for share in cell.reuse.values() if share is not None]
    row = {
        "prompt_reuse": statistics.fmean(reuse) if reuse else None,
        "cell_id": cell.cell_id,
        "deployment_id": item.deployment_id,
        "stratum": cell.facts["stratum"],
        "sampling": cell.facts["sampling"],
        "concurrency": cell.facts["concurrency"],
        "arrival_rate": cell.facts.get("arrival_rate"),
        "rejected": judged.rejected,
        "clock": cell.facts["clock"],
        "started_unix_s": cell.facts["started_unix_s"],
        "judged_by": specbench.__version__,
        "source_sha256": file_digest(cell.folder.path / "cell.json"),
        **attrs.asdict(judged.summary),
        **attrs.asdict(cell.sampled),
    }
    if client := cell.facts.get("client"):
        row |= {f"client_{name}": value for name, value in client.items()}
    if judged.delta:
        row |= {
            name: getattr(judged.delta, name)
            for name in ("preemptions", "prefix_queries", "prefix_hits")
        }
        row["prefix_hit_rate"] = prefix_hit_rate(judged.delta)
    if judged.server:
        row |= attrs.asdict(judged.server)
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


def request_rows(cell: JudgedCell) -> Iterator[Row]:
    """Give every request of a window, failures too."""
    for row in cell.rows:
        yield {
            **attrs.asdict(row),
            "cell_id": cell.cell_id,
            "events": len(row.event_ns),
            "prompt_reuse": cell.reuse.get(row.request_id),
            "ttft_s": cell_rules.ttft_s(row),
            "ttft_scheduled_s": cell_rules.ttft_scheduled_s(row),
            "first_tokens_s": cell_rules.first_tokens_s(row),
            "tpot_s": cell_rules.tpot_s(row),
            "e2e_s": cell_rules.e2e_s(row),
            "source": "specbench",
        }


def counter_rows(run: JudgedRun, cell: JudgedCell) -> Iterator[Row]:
    """Give the engine's raw counters before and after a window."""
    label = run.counter_names.engine_label
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


def clock_rows(deployments: Sequence[JudgedDeployment]) -> Iterator[Row]:
    """Give the verdict on every cell whose accelerator was slower than in its block.

    Cells of one load are compared: an accelerator near its power limit clocks lower at a high load.
    """
    alike: dict[tuple[int, str], dict[str, float]] = defaultdict(dict)
    owners: dict[str, str] = {}
    for item in deployments:
        for cell in item.cells:
            owners[cell.cell_id] = item.deployment_id
            if cell.sampled.sm_clock_mhz is not None:
                alike[item.block, cell.folder.path.name][cell.cell_id] = cell.sampled.sm_clock_mhz
    for clocks in alike.values():
        for cell_id, verdict in clock_verdicts(clocks).items():
            yield {
                "deployment_id": owners[cell_id],
                "cell_id": cell_id,
                **attrs.asdict(verdict),
                "judged_by": specbench.__version__,
            }


def verdict_rows(item: JudgedDeployment) -> Iterator[Row]:
    """Give every ruling on a deployment and its cells."""
    ruled = [(None, verdict) for verdict in (*item.verdicts, *item.damaged)] + [
        (cell.cell_id, verdict) for cell in item.cells for verdict in cell.judged.verdicts
    ]
    for cell_id, verdict in ruled:
        yield {
            "deployment_id": item.deployment_id,
            "cell_id": cell_id,
            **attrs.asdict(verdict),
            "judged_by": specbench.__version__,
        }


def effect_row(run: JudgedRun, comparison: Comparison, effect: Effect) -> Row:
    """Give the row of an effect, with what it may not be read without."""
    point = (effect.stratum, effect.sampling, effect.concurrency, effect.arrival_rate)
    blocks = [repeat.block for repeat in effect.repeats]
    drawn = effect.bootstrap
    return {
        "run_id": run.run_id,
        "comparison": comparison.kind,
        "denominator": comparison.denominator,
        "confounds": comparison.confounds(effect.arm, [point], blocks),
        **attrs.asdict(effect, filter=lambda field, _: field.name not in _NESTED),
        "blocks": len(effect.repeats),
        "low": effect.interval.low if effect.interval else None,
        "high": effect.interval.high if effect.interval else None,
        "bootstrap_low": drawn.interval.low if drawn else None,
        "bootstrap_high": drawn.interval.high if drawn else None,
        "bootstrap_coverage": drawn.coverage if drawn else None,
        "judged_by": specbench.__version__,
    }


def repeat_rows(run: JudgedRun, comparison: Comparison, effect: Effect) -> Iterator[Row]:
    """Give the ratios behind an effect."""
    for repeat in effect.repeats:
        yield {
            "run_id": run.run_id,
            "comparison": comparison.kind,
            "denominator": comparison.denominator,
            "arm": effect.arm,
            "stratum": effect.stratum,
            "sampling": effect.sampling,
            "concurrency": effect.concurrency,
            "arrival_rate": effect.arrival_rate,
            "metric": effect.metric,
            "block": repeat.block,
            "baseline": repeat.baseline,
            "arm_value": repeat.arm,
            "ratio": repeat.ratio,
        }
