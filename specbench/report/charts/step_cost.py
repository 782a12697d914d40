"""Acceptance length that was delivered, beside the length that pays for the step."""

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
    row_height,
    rows_of_arms,
    sized,
)
from specbench.report.content import Content, Row

DELIVERED, BREAK_EVEN = "delivered length", "break-even length"
COLOURS = {DELIVERED: "#3d5a99", BREAK_EVEN: "#c8553d"}
SHAPES = {DELIVERED: "circle", BREAK_EVEN: "stroke"}


def step_costs(content: Content) -> Iterator[Figure]:
    """Give delivered and break-even acceptance length of every stratum and sampling."""
    known = [
        row
        for row in content.break_evens
        if row["comparison"] == "shipped" and row["break_even_length"] is not None
    ]
    for stratum, sampling in distinct(known, "stratum", "sampling"):
        found = chosen_rows(known, stratum=stratum, sampling=sampling)
        arms = [arm for arm in content.arms if any(row["arm"] == arm for row in found)]
        loads = [load for (load,) in distinct(found, "load_point")]
        yield Figure(
            name=f"step-cost-{stratum}-{sampling}",
            section="step_cost",
            title=f"{stratum}, {sampling}",
            chart=sized(alt.layer(*_layers(found, arms)), height=row_height(arms, loads)),
        )


def _layers(found: Sequence[Row], arms: Sequence[str]) -> list[Any]:
    y, offset = rows_of_arms(arms)
    points = [
        {**place, "length": row[column], "is": name, "cost": row["cost"]}
        for row in found
        for place in columns([row], "arm", "load_point")
        for name, column in ((DELIVERED, "delivered_length"), (BREAK_EVEN, "break_even_length"))
    ]
    ends = [point["length"] for point in points]
    ends += [row[side] for row in found for side in ("length_low", "length_high") if row[side]]
    reach = max(ends) - min(ends) or 1.0
    # Room at the left for the load points.
    scale = alt.Scale(domain=[min(ends) - reach / 8, max(ends) + reach / 20], nice=False)
    x = alt.X("length:Q", title="acceptance length (tokens a draft)", scale=scale)
    domain = list(COLOURS)
    layers = [
        alt.Chart(inline(columns(found, "arm", "load_point", *LINKED)))
        .mark_rule(color="#b8bec5")
        .encode(
            x=alt.X("delivered_length:Q", scale=scale),
            x2="break_even_length:Q",
            y=y,
            yOffset=offset,
        ),
        alt.Chart(inline(points))
        .mark_point(filled=True, size=55, opacity=1, strokeWidth=2.5, angle=90)
        .encode(
            x=x,
            y=y,
            yOffset=offset,
            color=alt.Color(
                "is:N",
                scale=alt.Scale(domain=domain, range=list(COLOURS.values())),
                title=None,
                legend=alt.Legend(orient="top"),
            ),
            shape=alt.Shape(
                "is:N", scale=alt.Scale(domain=domain, range=list(SHAPES.values())), title=None
            ),
            tooltip=["arm:N", "load_point:O", "is:N", ratio("length"), ratio("cost")],
        ),
        load_labels(found, y, offset),
    ]
    bounded = [row for row in found if row["length_low"] is not None]
    if bounded:
        layers.append(
            alt.Chart(inline(columns(bounded, "arm", "load_point", "length_low", "length_high")))
            .mark_rule(color=COLOURS[BREAK_EVEN], strokeWidth=1.5)
            .encode(x=alt.X("length_low:Q", scale=scale), x2="length_high:Q", y=y, yOffset=offset)
        )
    return layers


LINKED = ("delivered_length", "break_even_length")
