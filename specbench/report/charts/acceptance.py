"""Acceptance: against the effect, against what bounds it, and by position in the draft."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from specbench.report.charts.draft_length import arms_by_family
from specbench.report.charts.figure import (
    Figure,
    arms_drawn,
    chosen_rows,
    columns,
    distinct,
    family_colours,
    inline,
    ratio,
    ratio_scale,
    sized,
)
from specbench.report.content import Content, Row


def acceptance(content: Content) -> Iterator[Figure]:
    """Give acceptance rate, and the tokens of a step, against speed-up, by stratum."""
    known = arms_by_family(content)
    points = [
        {**row, "family": known[row["arm"]][0]}
        for row in content.repeats
        if row["acceptance_rate"] is not None
    ]
    for stratum, sampling in distinct(points, "stratum", "sampling"):
        found = chosen_rows(points, stratum=stratum, sampling=sampling)
        rate = alt.X(
            "acceptance_rate:Q",
            title="acceptance rate (accepted / drafted)",
            axis=alt.Axis(format="%"),
            scale=alt.Scale(zero=False),
        )
        yield Figure(
            name=f"acceptance-speedup-{stratum}-{sampling}",
            section="acceptance",
            title=f"acceptance rate, {stratum}, {sampling}",
            chart=sized(_dots(content, found, rate, points)),
        )
        stepped = [row for row in found if row["tokens_per_step"] is not None]
        if stepped:
            yield Figure(
                name=f"tokens-per-step-speedup-{stratum}-{sampling}",
                section="acceptance",
                title=f"tokens per step, {stratum}, {sampling}",
                chart=sized(_under_the_bound(content, stepped, points)),
            )


def _dots(content: Content, found: Sequence[Row], x: alt.X, every: Sequence[Row]) -> Any:
    """Give a dot a block and cell: colour is the family of the arm, shape the load point."""
    hues = family_colours(content)
    shown = ("arm", "family", "load_point", "block", "acceptance_rate", "tokens_per_step", "ratio")
    return (
        alt.Chart(inline(columns(found, *shown)))
        .mark_point(filled=True, size=50, opacity=0.7)
        .encode(
            x=x,
            y=alt.Y(
                "ratio:Q",
                title="throughput, arm / baseline",
                scale=ratio_scale([row["ratio"] for row in every]),
            ),
            color=alt.Color(
                "family:N",
                scale=alt.Scale(domain=list(hues), range=list(hues.values())),
                title=None,
                legend=alt.Legend(orient="top"),
            ),
            shape=alt.Shape(
                "load_point:N",
                title=content.load[0].partition(" (")[0],
                legend=alt.Legend(orient="right"),
            ),
            tooltip=[
                "arm:N",
                "load_point:N",
                "block:N",
                ratio("ratio"),
                ratio("acceptance_rate"),
                ratio("tokens_per_step"),
            ],
        )
    )


def _under_the_bound(content: Content, found: Sequence[Row], every: Sequence[Row]) -> Any:
    tokens = [row["tokens_per_step"] for row in found]
    ends = (min(tokens), max(tokens))
    scale = alt.Scale(type="log", domain=[ends[0] / 1.05, ends[1] * 1.05], nice=False)
    x = alt.X("tokens_per_step:Q", title="tokens per step, T / (T - accepted)", scale=scale)
    line = [{"tokens_per_step": end, "ratio": end} for end in ends]
    bound = (
        alt.Chart(inline(line))
        .mark_line(strokeDash=[4, 3], color="#666", clip=True)
        .encode(x=x, y=alt.Y("ratio:Q"))
    )
    return alt.layer(bound, _dots(content, found, x, every))


def positions(content: Content) -> Iterator[Figure]:
    """Give acceptance by position in the draft, a figure a cell."""
    for cell in distinct(content.positions, "stratum", "sampling", "load_point"):
        stratum, sampling, load_point = cell
        chosen = chosen_rows(
            content.positions, stratum=stratum, sampling=sampling, load_point=load_point
        )
        colour, dash = arms_drawn(content, chosen)
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
                    color=colour,
                    strokeDash=dash,
                    detail="block:N",
                    tooltip=["arm:N", "block:N", "position:O", ratio("rate")],
                )
            ),
        )
