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
TWIN_COLOUR = "#8a7f6d"
DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2])
HEIGHT = 240
PALEST = 0.55
"""Share of white in the shade of a short draft."""
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


def arms_drawn(content: Content, drawn: Sequence[Row]) -> tuple[alt.Color, alt.StrokeDash]:
    """Give every arm a hue and a dash by its family, and a shade by its draft length.

    An arm looks the same in all charts; the legend names those that are drawn. The baseline and its
    repeat are grey.
    """
    looks = _looks(content)
    shown = {row["arm"] for row in drawn}
    named = [arm for arm in content.arms if arm in shown]
    legend = alt.Legend(orient="top", columns=4, values=named, symbolType="stroke")
    colours = alt.Scale(domain=list(looks), range=[colour for colour, _ in looks.values()])
    dashes = alt.Scale(domain=list(looks), range=[dash for _, dash in looks.values()])
    return (
        alt.Color("arm:N", scale=colours, title=None, legend=legend),
        alt.StrokeDash("arm:N", scale=dashes, title=None, legend=legend),
    )


def family_colours(content: Content) -> dict[str, str]:
    """Give the hue of every family that speculates, in the order of the arms."""
    rows = {row["arm"]: row for row in content.deployments}
    speculative = [arm for arm in content.arms if rows[arm]["role"] == "arm"]
    families = dict.fromkeys(rows[arm]["family"] for arm in speculative)
    return {family: PALETTE[at % len(PALETTE)] for at, family in enumerate(families)}


def _looks(content: Content) -> dict[str, tuple[str, list[int]]]:
    hues = family_colours(content)
    rows = {row["arm"]: row for row in content.deployments}
    greys = {"baseline": BASELINE_COLOUR, "noise_floor": REPEAT_COLOUR, "equalised": TWIN_COLOUR}
    found: dict[str, tuple[str, list[int]]] = {}
    for arm in content.arms:
        row = rows[arm]
        if row["role"] in greys:
            found[arm] = greys[row["role"]], DASHES[0]
            continue
        lengths = {other["longest_draft"] for other in rows.values() if _kin(other, row)}
        rank = sorted(lengths).index(row["longest_draft"]) + 1
        lighter = PALEST * (1 - rank / len(lengths))
        dash = DASHES[list(hues).index(row["family"]) % len(DASHES)]
        found[arm] = _mixed(hues[row["family"]], lighter), dash
    return found


def _kin(row: Row, other: Row) -> bool:
    return bool(row["role"] == other["role"] and row["family"] == other["family"])


def _mixed(colour: str, white: float) -> str:
    """Give a colour with a share of white."""
    parts = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(part + (255 - part) * white):02x}" for part in parts)


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
            gridColor="#e8e8e8",
            titlePadding=8,
            domainColor="#999",
            tickColor="#999",
            labelColor="#333",
        )
    )


def rows_of_arms(arms: Sequence[str], loads: Sequence[Any]) -> tuple[alt.Y, alt.YOffset]:
    """Give a row for every arm, and in it one for every load point."""
    scale = alt.Scale(domain=list(arms), paddingInner=0.25)
    y = alt.Y("arm:N", sort=None, title=None, scale=scale)
    return y, alt.YOffset("load_point:O", sort=None, scale=alt.Scale(domain=list(loads)))


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
