"""Rows that explain effects and decide nothing: step costs, break-evens, correlations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from specbench.analysis.correlation import Accepted, correlations
from specbench.analysis.effects import Effect
from specbench.analysis.intervals import Interval
from specbench.analysis.step_cost import Window, break_evens, step_costs
from specbench.judge import cells as cell_rules
from specbench.store.comparisons import Comparison, load_point
from specbench.store.judged_run import JudgedCell, JudgedDeployment
from specbench.store.points import Usable

Row = dict[str, Any]
Place = tuple[int, str, str, str, int | None, float | None]
"""Block, arm, stratum, sampling and load point."""

DETAIL_METRICS = ("output_throughput", "tpot_p50_s", "ttft_p50_s")


def step_cost_rows(
    run_id: str, comparison: Comparison, cells: Sequence[Usable]
) -> tuple[list[Row], list[Row]]:
    """Give the step costs of every block, and the break-evens over blocks."""
    costs = step_costs(_window(comparison, usable) for usable in cells)
    beside = {
        "run_id": run_id,
        "comparison": comparison.kind,
        "denominator": comparison.denominator,
    }
    over_blocks = [
        {
            **attrs.asdict(found, filter=lambda _, value: not isinstance(value, Interval)),
            **_bounds("cost", found.cost_interval),
            **_bounds("length", found.length_interval),
        }
        for found in break_evens(costs)
    ]
    return (
        [{**beside, **attrs.asdict(cost)} for cost in costs],
        [{**beside, **row} for row in over_blocks],
    )


def correlation_rows(run_id: str, comparison: Comparison, found: Sequence[Effect]) -> list[Row]:
    """Give how acceptance goes with throughput, TPOT and TTFT over the arms of each cell."""
    accepted = {
        _place(item, cell): cell.judged.ratios
        for item in comparison.deployments
        for cell in item.cells
    }
    points = []
    for effect in found:
        if effect.role != "arm" or effect.metric not in DETAIL_METRICS:
            continue
        for repeat in effect.repeats:
            place = (effect.stratum, effect.sampling, effect.concurrency, effect.arrival_rate)
            ratios = accepted[(repeat.block, effect.arm, *place)]
            points.append(
                Accepted(
                    block=repeat.block,
                    arm=effect.arm,
                    stratum=effect.stratum,
                    sampling=effect.sampling,
                    concurrency=effect.concurrency,
                    arrival_rate=effect.arrival_rate,
                    metric=effect.metric,
                    ratio=repeat.ratio,
                    acceptance_rate=ratios.acceptance_rate if ratios else None,
                    acceptance_length=ratios.acceptance_length if ratios else None,
                )
            )
    return [{"run_id": run_id, **attrs.asdict(item)} for item in correlations(points)]


def _bounds(name: str, interval: Interval | None) -> Row:
    return {
        f"{name}_low": interval.low if interval else None,
        f"{name}_high": interval.high if interval else None,
    }


def _window(comparison: Comparison, usable: Usable) -> Window:
    item, judged = usable.item, usable.cell.judged
    block, arm, stratum, sampling, concurrency, arrival_rate = _place(item, usable.cell)
    return Window(
        block=block,
        arm=arm,
        role=comparison.role(item),  # type: ignore[arg-type]  # planned as one
        stratum=stratum,
        sampling=sampling,
        concurrency=concurrency,
        arrival_rate=arrival_rate,
        excluded=usable.excluded,
        requests=judged.summary.requests,
        successes=judged.summary.successes,
        tokens=judged.summary.output_tokens,
        decode_s=_decode_s(usable.cell),
        engine_steps=judged.server.engine_steps if judged.server else None,
        drafts=judged.acceptance.drafts if judged.acceptance else None,
        accepted=judged.acceptance.accepted if judged.acceptance else None,
        tokens_per_step=judged.ratios.tokens_per_step if judged.ratios else None,
        acceptance_length=judged.ratios.acceptance_length if judged.ratios else None,
        longest_draft=item.arm["expected"]["longest_draft"] or None,
    )


def _decode_s(cell: JudgedCell) -> float | None:
    """Give E2E - TTFT summed over successes; None where one of them has neither."""
    total = 0.0
    for row in cell.rows:
        if row.status != "ok":
            continue
        e2e, ttft = cell_rules.e2e_s(row), cell_rules.ttft_s(row)
        if e2e is None or ttft is None:
            return None
        total += e2e - ttft
    return total


def _place(item: JudgedDeployment, cell: JudgedCell) -> Place:
    return item.block, item.arm["name"], *load_point(cell)
