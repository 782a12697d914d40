"""Acceptance: against speed-up, and by position in the draft."""

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


def acceptance(content: Content) -> Iterator[Figure]:
    """Give acceptance rate against speed-up."""
    points = [row for row in content.repeats if row["acceptance_rate"] is not None]
    if not points:
        return
    chosen = columns(
        points,
        "arm",
        "stratum",
        "load_point",
        "block",
        "acceptance_rate",
        "ratio",
    )
    yield Figure(
        name="acceptance-speedup",
        section="acceptance",
        title="all cells",
        chart=sized(
            alt.Chart(inline(chosen))
            .mark_point(filled=True, size=60, opacity=0.8)
            .encode(
                x=alt.X(
                    "acceptance_rate:Q",
                    title="acceptance rate (accepted / drafted)",
                    axis=alt.Axis(format="%"),
                ),
                y=alt.Y(
                    "ratio:Q",
                    title="throughput, arm / baseline",
                    scale=ratio_scale(points),
                ),
                color=colour_of_arms(content),
                shape=alt.Shape("load_point:N", title=content.load[0]),
                tooltip=[
                    "arm:N",
                    "stratum:N",
                    "load_point:N",
                    "block:N",
                    ratio("ratio"),
                    ratio("acceptance_rate"),
                ],
            )
        ),
    )


def positions(content: Content) -> Iterator[Figure]:
    """Give acceptance by position in the draft, a figure a cell."""
    for cell in distinct(content.positions, "stratum", "sampling", "load_point"):
        stratum, sampling, load_point = cell
        chosen = chosen_rows(
            content.positions, stratum=stratum, sampling=sampling, load_point=load_point
        )
        yield Figure(
            name=f"positions-{stratum}-{sampling}-{content.load[1]}{load_point:g}",
            section="positions",
            title=f"{stratum}, {sampling}, {content.load[0].partition(' (')[0]} {load_point:g}",
            chart=sized(
                alt.Chart(inline(columns(chosen, "arm", "block", "position", "rate")))
                .mark_line(point=True, opacity=0.75)
                .encode(
                    x=alt.X("position:O", title="draft position", axis=alt.Axis(labelAngle=0)),
                    y=alt.Y("rate:Q", title="accepted / drafts", scale=alt.Scale(domain=[0, 1])),
                    color=colour_of_arms(content),
                    detail="block:N",
                    tooltip=["arm:N", "block:N", "position:O", ratio("rate")],
                )
            ),
        )
