"""Judged cells to the anomalies of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from specbench.judge.anomalies import Measured, Told, anomalies
from specbench.store.judged_run import JudgedCell, JudgedDeployment, JudgedRun

RANDOM = "random"
"""In the source of a prompt: its text is random tokens."""


def anomaly_rows(
    run: JudgedRun, deployments: Sequence[JudgedDeployment]
) -> Iterator[dict[str, Any]]:
    """Give what does not fit together in a run. Rejected cells are left out."""
    found = [
        _measured(run, item, cell)
        for item in deployments
        for cell in item.cells
        if not cell.judged.rejected
    ]
    for anomaly in anomalies(found):
        yield {"run_id": run.run_id, **attrs.asdict(anomaly)}


def _measured(run: JudgedRun, item: JudgedDeployment, cell: JudgedCell) -> Measured:
    summary, ratios = cell.judged.summary, cell.judged.ratios
    temperatures = {s["name"]: s["temperature"] for s in run.experiment["sampling"]}
    stratum, sampling = cell.facts["stratum"], cell.facts["sampling"]
    sources = run.plan.get("sources", {}).get(stratum, [])
    return Measured(
        block=item.block,
        arm=item.arm["name"],
        is_baseline=item.arm["role"] == "baseline",
        stratum=stratum,
        sampling=sampling,
        greedy=temperatures.get(sampling) == 0,
        concurrency=cell.facts["concurrency"],
        arrival_rate=cell.facts.get("arrival_rate"),
        drafts=cell.judged.acceptance.drafts if cell.judged.acceptance else None,
        acceptance_rate=ratios.acceptance_rate if ratios else None,
        tokens_per_step=ratios.tokens_per_step if ratios else None,
        output_mean=(
            summary.output_tokens / summary.successes
            if summary.output_tokens is not None and summary.successes
            else None
        ),
        tpot_p50_s=summary.tpot_p50_s,
        output_throughput=summary.output_throughput,
        steady_throughput=summary.steady_throughput,
        verification=item.audit.value("rejection_sample_method") if item.audit else None,
        random_prompts=any(RANDOM in source.lower() for source in sources),
        told=tuple(_told(item, cell.folder.path.name)),
    )


def _told(item: JudgedDeployment, cell: str) -> Iterator[Told]:
    """Give what a server's log warned of inside a window."""
    for warning in item.closing.get("warnings", ()):
        fell = item.fell.get(warning["line"])
        if fell is not None and cell in fell.inside + fell.perhaps:
            yield Told(**warning, surely=cell in fell.inside)
