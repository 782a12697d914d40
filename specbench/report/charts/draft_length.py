"""Draft length against effect, a line a load point, where a family of arms sweeps it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import altair as alt

from specbench.report.charts.figure import (
    Figure,
    chosen_rows,
    columns,
    distinct,
    inline,
    ratio,
    ratio_scale,
    sized,
)
from specbench.report.content import Content, Row


def draft_lengths(content: Content) -> Iterator[Figure]:
    """Give k against the throughput effect for every family that has several k."""
    swept = list(_swept(content))
    if not swept:
        return
    sides = ("ratio", "low", "high")
    scale = ratio_scale([row[side] for row in swept for side in sides if row[side] is not None])
    for family, stratum, sampling in distinct(swept, "family", "stratum", "sampling"):
        found = chosen_rows(swept, family=family, stratum=stratum, sampling=sampling)
        yield Figure(
            name=f"k-{family.replace(', ', '-').replace(' ', '-')}-{stratum}-{sampling}",
            section="draft_length",
            title=f"{family}, {stratum}, {sampling}",
            chart=sized(alt.layer(*_layers(content, found, scale))),
        )


def arms_by_family(content: Content) -> Mapping[str, tuple[str, int | None]]:
    """Give the family and the draft length of every arm."""
    return {row["arm"]: (row["family"], row["longest_draft"]) for row in content.deployments}


def _swept(content: Content) -> Iterator[Row]:
    known = arms_by_family(content)
    lengths: dict[str, set[int]] = {}
    for family, k in known.values():
        lengths.setdefault(family, set()).update({k} if k else ())
    for row in content.effects:
        family, k = known[row["arm"]]
        measured = row["metric"] == "output_throughput" and row["estimate"] is not None
        if measured and row["role"] == "arm" and len(lengths[family]) > 1:
            yield {**row, "family": family, "k": k, "ratio": row["estimate"]}


def _layers(content: Content, found: Sequence[Row], scale: alt.Scale) -> list[Any]:
    letter = content.load[1]
    drawn = [
        {**row, "load": f"{letter}={row['load_point']:g}"}
        for row in columns(found, "arm", "k", "load_point", "ratio", "low", "high", "blocks")
    ]
    loads = list(dict.fromkeys(row["load"] for row in sorted(drawn, key=lambda r: r["load_point"])))
    x = alt.X(
        "k:O",
        title="k: most tokens drafted in a step",
        axis=alt.Axis(labelAngle=0),
        scale=alt.Scale(paddingInner=0.8, paddingOuter=0.4),
    )
    offset = alt.XOffset("load:N", sort=loads)
    y = alt.Y("ratio:Q", title="throughput, arm / baseline", scale=scale)
    legend = alt.Legend(orient="top", title=None, symbolType="stroke", symbolStrokeWidth=2)
    # One hue, darker with load; dashes say the same without colour.
    colour = alt.Color("load:N", scale=alt.Scale(domain=loads, range=_shades(loads)), legend=legend)
    dash = alt.StrokeDash("load:N", scale=alt.Scale(domain=loads), legend=legend)
    lines = alt.Chart(inline(drawn)).encode(x=x, xOffset=offset, y=y, color=colour)
    about = ["arm:N", "load:N", "blocks:Q", ratio("ratio"), ratio("low"), ratio("high")]
    with_bounds = [row for row in drawn if row["low"] is not None]
    layers = [
        alt.Chart(inline([{"ratio": 1.0}])).mark_rule(strokeDash=[4, 3], color="#666").encode(y=y),
        lines.mark_line(strokeWidth=1.8).encode(strokeDash=dash),
        lines.mark_point(filled=True, size=45).encode(tooltip=about),
    ]
    if with_bounds:
        spans = alt.Chart(inline(with_bounds)).mark_rule(opacity=0.6)
        layers.append(
            spans.encode(
                x=x, xOffset=offset, y=alt.Y("low:Q", scale=scale), y2="high:Q", color=colour
            )
        )
    return layers


def _shades(loads: Sequence[str]) -> list[str]:
    """Give blues from light to dark, one a load point."""
    light, dark = (120, 169, 216), (16, 42, 88)
    count = max(len(loads) - 1, 1)
    return [
        "#"
        + "".join(
            f"{round(a + (b - a) * place / count):02x}" for a, b in zip(light, dark, strict=True)
        )
        for place in range(len(loads))
    ]
