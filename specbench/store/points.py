"""The values of a run that effects are made of, without those that a ruling keeps out."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from specbench.analysis.drift import Placed
from specbench.analysis.effects import METRICS, Metric, Point
from specbench.experiment.decision import DecisionMetric
from specbench.facts import CellSummary
from specbench.judge.cells import WITHHELD_BELOW
from specbench.store.comparisons import Comparison, LoadPoint, load_point
from specbench.store.judged_run import JudgedCell, JudgedDeployment


@attrs.frozen(kw_only=True)
class Usable:
    """A measured cell, and why it may not be used."""

    item: JudgedDeployment
    cell: JudgedCell
    excluded: str


def cells_of(comparison: Comparison, *, confirming: bool) -> tuple[Usable, ...]:
    """Give every cell of a comparison with what keeps it out of effects."""
    return tuple(_cells(comparison, confirming=confirming))


def points(comparison: Comparison, cells: tuple[Usable, ...]) -> Iterator[Point]:
    """Give every value of every cell."""
    for usable in cells:
        item, cell = usable.item, usable.cell
        for metric in METRICS:
            value, withheld = _value(cell.judged.summary, metric)
            yield Point(
                block=item.block,
                arm=item.arm["name"],
                role=comparison.role(item),  # type: ignore[arg-type]  # planned as one
                stratum=cell.facts["stratum"],
                sampling=cell.facts["sampling"],
                concurrency=cell.facts["concurrency"],
                arrival_rate=cell.facts.get("arrival_rate"),
                metric=metric,
                value=None if usable.excluded else value,
                excluded=usable.excluded or withheld,
                weak="_p95_" in metric and cell.judged.summary.p95_weak,
            )


def placed(cells: tuple[Usable, ...], metric: DecisionMetric) -> Iterator[tuple[LoadPoint, Placed]]:
    """Give the usable values of a metric with where and when they were measured."""
    starts = [usable.cell.facts["started_unix_s"] for usable in cells]
    for usable in cells:
        item, cell = usable.item, usable.cell
        value, _ = _value(cell.judged.summary, metric)
        if usable.excluded or not value:
            continue
        yield (
            load_point(cell),
            Placed(
                arm=item.arm["name"],
                block=item.block,
                place=item.place,
                hours=(cell.facts["started_unix_s"] - min(starts)) / 3600,
                host=item.host,
                value=value,
            ),
        )


def _cells(comparison: Comparison, *, confirming: bool) -> Iterator[Usable]:
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
            yield Usable(item=item, cell=cell, excluded=", ".join([*reasons, *failed]))


def _value(summary: CellSummary, metric: Metric) -> tuple[float | None, str]:
    """Give a value, or why there is none."""
    if metric == "window_s_per_request":
        if not summary.successes:
            return None, "no success"
        return summary.duration_s / summary.successes, ""
    value: float | None = getattr(summary, metric)
    if value is not None or not summary.successes:
        return value, "" if value is not None else "no success"
    if metric == "output_throughput":
        return None, "a success without usage"
    if "_p95_" in metric and summary.successes < WITHHELD_BELOW[0.95]:
        return None, f"p95 withheld: {summary.successes} successes, under {WITHHELD_BELOW[0.95]}"
    return None, "no value"
