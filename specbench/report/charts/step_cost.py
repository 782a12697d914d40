"""Tokens that a decode step delivered, beside its cost: equal where an arm breaks even."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from specbench.report.charts.figure import (
    Figure,
    chosen_rows,
    columns,
    distinct,
    inline,
    load_labels,
    ratio,
    ratio_scale,
    row_height,
    rows_of_arms,
    sized,
)
from specbench.report.content import Content, Row

DELIVERED, COST = "tokens a step delivered", "cost of a step (break-even)"
COLOURS = {DELIVERED: "#3d5a99", COST: "#c8553d"}


def step_costs(content: Content) -> Iterator[Figure]:
    """Give delivered tokens and step cost of every stratum and sampling, on one scale."""
    known = [
        row
        for row in content.break_evens
        if row["comparison"] == "shipped" and row["cost"] is not None
    ]
    quantities = ("cost", "cost_low", "cost_high", "delivered_per_step")
    ends = [row[name] for row in known for name in quantities if row[name] is not None]
    for stratum, sampling in distinct(known, "stratum", "sampling"):
        found = chosen_rows(known, stratum=stratum, sampling=sampling)
        arms = [arm for arm in content.arms if any(row["arm"] == arm for row in found)]
        loads = [load for (load,) in distinct(found, "load_point")]
        chart = alt.layer(*_layers(found, rows_of_arms(arms, loads), ratio_scale(ends)))
        yield Figure(
            name=f"step-cost-{stratum}-{sampling}",
            section="step_cost",
            title=f"{stratum}, {sampling}",
            chart=sized(chart, height=row_height(arms, loads)),
        )


def _layers(found: Sequence[Row], placed: tuple[alt.Y, alt.YOffset], scale: alt.Scale) -> list[Any]:
    y, offset = placed
    points = [
        {**place, "value": row[column], "is": name}
        for row in found
        for place in columns([row], "arm", "load_point", "blocks")
        for name, column in ((DELIVERED, "delivered_per_step"), (COST, "cost"))
    ]
    x = alt.X("value:Q", title="tokens a decode step; cost, arm / baseline", scale=scale)
    colour = alt.Color(
        "is:N",
        scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())),
        title=None,
        legend=alt.Legend(orient="top", symbolType="square"),
    )
    about = ["arm:N", "load_point:O", "blocks:Q", "is:N", ratio("value")]

    def drawn(chart: Any, name: str) -> Any:
        kept = inline([point for point in points if point["is"] == name])
        return chart(alt.Chart(kept)).encode(x=x, y=y, yOffset=offset, color=colour, tooltip=about)

    layers = [
        alt.Chart(inline(columns(found, "arm", "load_point", "delivered_per_step", "cost")))
        .mark_rule(color="#c5cad0")
        .encode(x=alt.X("delivered_per_step:Q", scale=scale), x2="cost:Q", y=y, yOffset=offset),
        drawn(lambda chart: chart.mark_circle(size=50, opacity=1), DELIVERED),
        drawn(lambda chart: chart.mark_tick(thickness=3, size=11, orient="vertical"), COST),
        load_labels(found, y, offset),
    ]
    bounded = [row for row in found if row["cost_low"] is not None]
    if bounded:
        layers.append(
            alt.Chart(inline(columns(bounded, "arm", "load_point", "cost_low", "cost_high")))
            .mark_rule(color=COLOURS[COST], strokeWidth=1.5)
            .encode(x=alt.X("cost_low:Q", scale=scale), x2="cost_high:Q", y=y, yOffset=offset)
        )
    return layers
