"""Effects by workload and load, each row an arm at a load point, over what equal arms differ by."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from specbench.analysis.intervals import CLAIM_BLOCKS
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

GAIN, LOSS, OPEN = "interval above 1", "interval below 1", "holds 1, or no interval"
COLOURS = {GAIN: "#0b6e4f", LOSS: "#b3361f", OPEN: "#444444"}
BAND = "#dfe3e8"


def speedups(content: Content) -> Iterator[Figure]:
    """Give the throughput ratios of every stratum and sampling."""
    bounds = [row[side] for row in _effects(content) for side in ("low", "high") if row[side]]
    scale = ratio_scale([*(row["ratio"] for row in content.repeats), *bounds])
    for stratum, sampling in distinct(content.repeats, "stratum", "sampling"):
        repeats = chosen_rows(content.repeats, stratum=stratum, sampling=sampling)
        effects = chosen_rows(_effects(content), stratum=stratum, sampling=sampling)
        arms = [arm for arm in content.arms if any(row["arm"] == arm for row in effects)]
        loads = [load for (load,) in distinct(repeats, "load_point")]
        chart = alt.layer(*_layers(effects, repeats, rows_of_arms(arms, loads), scale))
        yield Figure(
            name=f"speedup-{stratum}-{sampling}",
            section="speedup",
            title=f"{stratum}, {sampling}",
            chart=sized(chart, height=row_height(arms, loads)),
        )


def _effects(content: Content) -> list[Row]:
    return [
        {**row, "is": _conclusion(row), "sure": row["blocks"] >= CLAIM_BLOCKS}
        for row in content.effects
        if row["metric"] == "output_throughput" and row["estimate"] is not None
    ]


def _conclusion(row: Row) -> str:
    if row["low"] is not None and row["low"] > 1:
        return GAIN
    return LOSS if row["high"] is not None and row["high"] < 1 else OPEN


def _layers(
    effects: Sequence[Row],
    repeats: Sequence[Row],
    placed: tuple[alt.Y, alt.YOffset],
    scale: alt.Scale,
) -> list[Any]:
    y, offset = placed
    x = alt.X("ratio:Q", title="throughput, arm / baseline", scale=scale)
    colour = alt.Color(
        "is:N",
        scale=alt.Scale(domain=list(COLOURS), range=list(COLOURS.values())),
        title=None,
        legend=alt.Legend(orient="top", columns=3),
    )
    means = [{**row, "ratio": row["estimate"]} for row in effects]
    with_bounds = [row for row in means if row["low"] is not None]
    bands = list(_bands(effects, repeats))
    unity = alt.Chart(inline([{"ratio": 1.0}])).mark_rule(strokeDash=[4, 3], color="#666")
    dots = columns(repeats, "arm", "load_point", "block", "ratio")
    ticks = columns(means, "arm", "load_point", "blocks", "ratio", "is", "low", "high")
    layers = [
        unity.encode(x=x),
        alt.Chart(inline(dots))
        .mark_circle(size=26, opacity=0.55, color="#3d5a99")
        .encode(
            x=x, y=y, yOffset=offset, tooltip=["arm:N", "load_point:O", "block:N", ratio("ratio")]
        ),
        alt.Chart(inline(ticks))
        .mark_tick(thickness=3, size=11, orient="vertical")
        .encode(
            x=x,
            y=y,
            yOffset=offset,
            color=colour,
            tooltip=[
                "arm:N",
                "load_point:O",
                "blocks:Q",
                ratio("ratio"),
                ratio("low"),
                ratio("high"),
            ],
        ),
        load_labels(effects, y, offset),
    ]
    if with_bounds:
        spans = columns(with_bounds, "arm", "load_point", "low", "high", "is", "sure")
        dash = alt.condition("datum.sure", alt.value([1, 0]), alt.value([3, 2]))
        layers.append(
            alt.Chart(inline(spans))
            .mark_rule(strokeWidth=1.5)
            .encode(
                x=alt.X("low:Q", scale=scale),
                x2="high:Q",
                y=y,
                yOffset=offset,
                color=colour,
                strokeDash=dash,
            )
        )
    if bands:
        band = alt.Chart(inline(bands)).mark_bar(color=BAND, height=13)
        layers.insert(
            0, band.encode(x=alt.X("low:Q", scale=scale), x2="high:Q", y=y, yOffset=offset)
        )
    return layers


def _bands(effects: Sequence[Row], repeats: Sequence[Row]) -> Iterator[Row]:
    """Give what the baseline launched again differed by, behind every row of its load point."""
    for row in effects:
        again = [
            other["ratio"]
            for other in repeats
            if other["role"] == "noise_floor" and other["load_point"] == row["load_point"]
        ]
        if again:
            place = {name: row[name] for name in ("arm", "load_point")}
            yield {**place, "low": min(again), "high": max(again)}
