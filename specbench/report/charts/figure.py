"""A figure, and what all charts share: colours, scales and sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import attrs

from specbench.report.content import Content, Row

PALETTE = ("#0b6e4f", "#c8553d", "#3d5a99", "#b8860b", "#7b4b94", "#2a9d8f", "#d1495b", "#5f6c37")
BASELINE_COLOUR = "#555555"
REPEAT_COLOUR = "#a0a0a0"
HEIGHT = 240
MARGIN = 1.08
ROW = 14
GAP = 7


@attrs.frozen(kw_only=True)
class Figure:
    """A chart with what stands around it on the page."""

    name: str
    """File name without ending."""
    section: str
    title: str
    chart: Any
    """An altair chart of flexible width."""


def colour_of_arms(content: Content) -> alt.Color:
    """Give one colour for each arm in all charts; the baseline and its repeat are grey."""
    shown = {arm: PALETTE[place % len(PALETTE)] for place, arm in enumerate(content.arms)}
    for cell in content.deployments:
        if cell["role"] == "baseline":
            shown[cell["arm"]] = BASELINE_COLOUR
        if cell["role"] == "noise_floor":
            shown[cell["arm"]] = REPEAT_COLOUR
    scale = alt.Scale(domain=list(shown), range=list(shown.values()))
    return alt.Color("arm:N", scale=scale, title=None, legend=alt.Legend(orient="top", columns=3))


def ratio_scale(found: Sequence[float]) -> alt.Scale:
    """Give one logarithmic scale for all ratios, so that panels compare."""
    ratios = [*found, 1.0]
    return alt.Scale(type="log", domain=[min(ratios) / MARGIN, max(ratios) * MARGIN], nice=False)


def sized(chart: Any, height: int = HEIGHT) -> Any:
    """Give a chart the page's width, height and axes."""
    return (
        chart.properties(width="container", height=height, background="transparent")
        .configure_view(stroke=None)
        .configure_axis(
            gridColor="#e8e8e8", domainColor="#999", tickColor="#999", labelColor="#333"
        )
    )


def rows_of_arms(arms: Sequence[str]) -> tuple[alt.Y, alt.YOffset]:
    """Give a row for every arm, and in it one for every load point."""
    y = alt.Y("arm:N", sort=list(arms), title=None, scale=alt.Scale(paddingInner=0.25))
    return y, alt.YOffset("load_point:O")


def row_height(arms: Sequence[str], loads: Sequence[object]) -> int:
    """Give the height that such rows need."""
    return max(len(arms) * (len(loads) * ROW + GAP), 60)


def load_labels(found: Sequence[Row], y: alt.Y, offset: alt.YOffset) -> Any:
    """Give the load point of every row at its left end."""
    return (
        alt.Chart(inline(columns(found, "arm", "load_point")))
        .mark_text(align="left", fontSize=9, color="#57606a")
        .encode(x=alt.value(2), y=y, yOffset=offset, text="load_point:O")
    )


def ratio(field: str) -> alt.Tooltip:
    """Give the tooltip of a ratio."""
    return alt.Tooltip(field, type="quantitative", format=".3f")


def inline(values: list[Row]) -> alt.InlineData:
    """Give rows as a chart holds them."""
    return alt.InlineData(values=values)


def columns(found: Sequence[Row], *names: str) -> list[Row]:
    """Give rows with some of their columns."""
    return [{name: row[name] for name in names} for row in found]


def chosen_rows(found: Sequence[Row], **wanted: object) -> list[Row]:
    """Give the rows whose columns have these values."""
    return [row for row in found if all(row[name] == value for name, value in wanted.items())]


def distinct(found: Sequence[Row], *names: str) -> list[Any]:
    """Give the distinct values of columns, sorted."""
    return sorted({tuple(row[name] for name in names) for row in found})
