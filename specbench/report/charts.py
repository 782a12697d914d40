"""Altair charts of a run. Each says in its axis which quantity it shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt
import attrs
import numpy as np

from specbench.report.content import Content, Row

PALETTE = ("#0b6e4f", "#c8553d", "#3d5a99", "#b8860b", "#7b4b94", "#2a9d8f", "#d1495b", "#5f6c37")
BASELINE_COLOUR = "#555555"
REPEAT_COLOUR = "#a0a0a0"
HEIGHT = 240
MARGIN = 1.08
MOST_STEPS = 200
"""Most points of one distribution: its evenly spaced quantiles."""


@attrs.frozen(kw_only=True)
class Figure:
    """A chart with what stands around it on the page."""

    name: str
    """File name without ending."""
    section: str
    title: str
    chart: Any
    """An altair chart of flexible width."""


@attrs.frozen(kw_only=True)
class Section:
    """A part of the page that holds figures."""

    title: str
    about: str
    """What the quantities are, and what they cannot show."""


SECTIONS = {
    "speedup": Section(
        title="Speed-up by workload and load",
        about="Output throughput of an arm / baseline of the same block. Small dots: one block "
        "each; bars: the geometric mean. Grey, where there is one, is the baseline launched again: "
        "what equal arms differ by.",
    ),
    "acceptance": Section(
        title="Acceptance against speed-up",
        about="One dot a block and cell: accepted / drafted tokens by the server's counters, "
        "against the throughput ratio. Descriptive; acceptance is not manipulated here.",
    ),
    "positions": Section(
        title="Acceptance by position",
        about="Accepted at position i / drafts, one line a block. The values of a line sum to the "
        "acceptance length minus one. Drafts shorter than i count as not accepted.",
    ),
    "latency": Section(
        title="Distributions of TPOT and TTFT",
        about="Share of requests at or below a time, one line a deployment. Requests of one "
        "server are no independent repeats: compare lines of one colour first.",
    ),
}


def figures(content: Content) -> list[Figure]:
    """Give every figure that the run has values for."""
    return [*_speedups(content), *_acceptance(content), *_positions(content), *_latency(content)]


def _colour(content: Content) -> alt.Color:
    shown = {arm: PALETTE[place % len(PALETTE)] for place, arm in enumerate(content.arms)}
    for cell in content.deployments:
        if cell["role"] == "baseline":
            shown[cell["arm"]] = BASELINE_COLOUR
        if cell["role"] == "noise_floor":
            shown[cell["arm"]] = REPEAT_COLOUR
    scale = alt.Scale(domain=list(shown), range=list(shown.values()))
    return alt.Color("arm:N", scale=scale, title=None, legend=alt.Legend(orient="top", columns=3))


def _speedups(content: Content) -> Iterator[Figure]:
    colour, scale = _colour(content), _ratio_scale(content.repeats)
    for stratum, sampling in _values(content.repeats, "stratum", "sampling"):
        repeats = _chosen(content.repeats, stratum=stratum, sampling=sampling)
        means = [
            row
            for row in _chosen(
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
            alt.Chart(_data([{"ratio": 1.0}]))
            .mark_rule(strokeDash=[4, 3], color="#888")
            .encode(y=y)
        )
        dots = (
            alt.Chart(_data(_columns(repeats, "arm", "load_point", "ratio", "block")))
            .mark_circle(size=34, opacity=0.65)
            .encode(
                x=x,
                y=y,
                color=colour,
                xOffset=offset,
                tooltip=["arm:N", "block:N", _ratio("ratio")],
            )
        )
        named = [{**row, "ratio": row["estimate"]} for row in means]
        bars = (
            alt.Chart(_data(_columns(named, "arm", "load_point", "ratio", "blocks", "low", "high")))
            .mark_tick(thickness=3, size=20)
            .encode(
                x=x,
                y=y,
                color=colour,
                xOffset=offset,
                tooltip=["arm:N", "blocks:Q", _ratio("ratio")],
            )
        )
        intervals = (
            alt.Chart(
                _data([r for r in _columns(named, "arm", "load_point", "low", "high") if r["low"]])
            )
            .mark_rule()
            .encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour, xOffset=offset)
        )
        layers = [unity, dots, bars] + ([intervals] if any(row["low"] for row in named) else [])
        yield Figure(
            name=f"speedup-{stratum}-{sampling}",
            section="speedup",
            title=f"{stratum}, {sampling}",
            chart=_sized(alt.layer(*layers)),
        )


def _acceptance(content: Content) -> Iterator[Figure]:
    points = [row for row in content.repeats if row["acceptance_rate"] is not None]
    if not points:
        return
    chosen = _columns(
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
        chart=_sized(
            alt.Chart(_data(chosen))
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
                    scale=_ratio_scale(points),
                ),
                color=_colour(content),
                shape=alt.Shape("load_point:N", title=content.load[0]),
                tooltip=[
                    "arm:N",
                    "stratum:N",
                    "load_point:N",
                    "block:N",
                    _ratio("ratio"),
                    _ratio("acceptance_rate"),
                ],
            )
        ),
    )


def _positions(content: Content) -> Iterator[Figure]:
    for cell in _values(content.positions, "stratum", "sampling", "load_point"):
        stratum, sampling, load_point = cell
        chosen = _chosen(
            content.positions, stratum=stratum, sampling=sampling, load_point=load_point
        )
        yield Figure(
            name=f"positions-{stratum}-{sampling}-{content.load[1]}{load_point:g}",
            section="positions",
            title=f"{stratum}, {sampling}, {content.load[0].partition(' (')[0]} {load_point:g}",
            chart=_sized(
                alt.Chart(_data(_columns(chosen, "arm", "block", "position", "rate")))
                .mark_line(point=True, opacity=0.75)
                .encode(
                    x=alt.X("position:O", title="draft position", axis=alt.Axis(labelAngle=0)),
                    y=alt.Y("rate:Q", title="accepted / drafts", scale=alt.Scale(domain=[0, 1])),
                    color=_colour(content),
                    detail="block:N",
                    tooltip=["arm:N", "block:N", "position:O", _ratio("rate")],
                )
            ),
        )


def _latency(content: Content) -> Iterator[Figure]:
    about = content.load[0].partition(" (")[0]
    for cell in _values(content.requests, "stratum", "sampling", "load_point"):
        stratum, sampling, load_point = cell
        chosen = _chosen(
            content.requests, stratum=stratum, sampling=sampling, load_point=load_point
        )
        for quantity, name in (("tpot_ms", "TPOT"), ("ttft_ms", "TTFT")):
            yield Figure(
                name=f"{name.lower()}-{stratum}-{sampling}-{content.load[1]}{load_point:g}",
                section="latency",
                title=f"{name}, {stratum}, {sampling}, {about} {load_point:g}",
                chart=_sized(_distribution(content, chosen, quantity, name)),
            )


def _distribution(content: Content, chosen: Sequence[Row], quantity: str, name: str) -> Any:
    steps = []
    for arm, block in _values(chosen, "arm", "block"):
        found = _chosen(chosen, arm=arm, block=block)
        values = sorted(row[quantity] for row in found if row[quantity] is not None)
        steps += [
            {"arm": arm, "block": block, "ms": float(np.quantile(values, share)), "share": share}
            for share in np.linspace(0, 1, min(len(values), MOST_STEPS)).tolist()
        ]
    return (
        alt.Chart(_data(steps))
        .mark_line(strokeWidth=1.5, opacity=0.85)
        .encode(
            x=alt.X("ms:Q", title=f"{name} (ms)", scale=alt.Scale(zero=False)),
            y=alt.Y("share:Q", title="share of requests", axis=alt.Axis(format="%")),
            color=_colour(content),
            detail="block:N",
        )
    )


def _ratio_scale(repeats: Sequence[Row]) -> alt.Scale:
    """Give one logarithmic scale for all ratios, so that panels compare."""
    ratios = [row["ratio"] for row in repeats] + [1.0]
    return alt.Scale(type="log", domain=[min(ratios) / MARGIN, max(ratios) * MARGIN], nice=False)


def _sized(chart: Any) -> Any:
    return (
        chart.properties(width="container", height=HEIGHT, background="transparent")
        .configure_view(stroke=None)
        .configure_axis(
            gridColor="#e8e8e8", domainColor="#999", tickColor="#999", labelColor="#333"
        )
    )


def _ratio(field: str) -> alt.Tooltip:
    return alt.Tooltip(field, type="quantitative", format=".3f")


def _data(values: list[Row]) -> alt.InlineData:
    return alt.InlineData(values=values)


def _columns(found: Sequence[Row], *names: str) -> list[Row]:
    return [{name: row[name] for name in names} for row in found]


def _chosen(found: Sequence[Row], **wanted: object) -> list[Row]:
    return [row for row in found if all(row[name] == value for name, value in wanted.items())]


def _values(found: Sequence[Row], *names: str) -> list[Any]:
    """Give the distinct values of columns, sorted."""
    return sorted({tuple(row[name] for name in names) for row in found})
