"""Speed-up by workload and load."""

from __future__ import annotations

from collections.abc import Iterator

import altair as alt

from specbench.report.charts.figure import (
    Figure,
    chosen_rows,
    colour_of_arms,
    columns,
    distinct,
    inline,
    ratio,
    ratio_scale,
    sized,
)
from specbench.report.content import Content


def speedups(content: Content) -> Iterator[Figure]:
    """Give the throughput ratios of every stratum and sampling."""
    colour, scale = colour_of_arms(content), ratio_scale(content.repeats)
    for stratum, sampling in distinct(content.repeats, "stratum", "sampling"):
        repeats = chosen_rows(content.repeats, stratum=stratum, sampling=sampling)
        means = [
            row
            for row in chosen_rows(
                content.effects, stratum=stratum, sampling=sampling, metric="output_throughput"
            )
            if row["estimate"] is not None
        ]
        x = alt.X("load_point:O", title=content.load[0], axis=alt.Axis(labelAngle=0))
        offset = alt.XOffset("arm:N", sort=list(content.arms))
        y = alt.Y(
            "ratio:Q",
            title="throughput, arm / baseline",
            scale=scale,
        )
        unity = (
            alt.Chart(inline([{"ratio": 1.0}]))
            .mark_rule(strokeDash=[4, 3], color="#888")
            .encode(y=y)
        )
        dots = (
            alt.Chart(inline(columns(repeats, "arm", "load_point", "ratio", "block")))
            .mark_circle(size=34, opacity=0.65)
            .encode(
                x=x,
                y=y,
                color=colour,
                xOffset=offset,
                tooltip=["arm:N", "block:N", ratio("ratio")],
            )
        )
        named = [{**row, "ratio": row["estimate"]} for row in means]
        bars = (
            alt.Chart(inline(columns(named, "arm", "load_point", "ratio", "blocks", "low", "high")))
            .mark_tick(thickness=3, size=20)
            .encode(
                x=x,
                y=y,
                color=colour,
                xOffset=offset,
                tooltip=["arm:N", "blocks:Q", ratio("ratio")],
            )
        )
        intervals = (
            alt.Chart(
                inline([r for r in columns(named, "arm", "load_point", "low", "high") if r["low"]])
            )
            .mark_rule()
            .encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour, xOffset=offset)
        )
        layers = [unity, dots, bars] + ([intervals] if any(row["low"] for row in named) else [])
        yield Figure(
            name=f"speedup-{stratum}-{sampling}",
            section="speedup",
            title=f"{stratum}, {sampling}",
            chart=sized(alt.layer(*layers)),
        )
