"""One HTML table, and numbers as its text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from specbench.properties import property_of

Cell = str | tuple[str, str]
"""Text, or text and a CSS class."""

THOUSAND = 1000
LONG_TEXT = 34
"""Characters from which a cell's text may wrap."""


def table(headers: Sequence[str], body: Iterable[Sequence[Cell]], *, empty: str) -> str:
    """Give a scrolling table, or the sentence for an empty one."""
    lines = [_line(row) for row in body]
    if not lines:
        return f"<p class='empty'>{escape(empty)}</p>"
    head = "".join(f"<th>{escape(name)}</th>" for name in headers)
    return (
        f"<div class='scroll'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def title(fact: str) -> str:
    """Give the words for a property."""
    return property_of(fact).title


def number(value: float | None, style: str) -> str:
    """Give a number as text, or a dash."""
    return "-" if value is None else format(value, style)


def ms(value: float | None, digits: int) -> str:
    """Give seconds as milliseconds, or a dash."""
    return "-" if value is None else f"{value * 1000:,.{digits}f}"


def span(values: Sequence[float]) -> str:
    """Give values one after the other, those from 1,000 whole, or a dash."""
    return ", ".join(f"{v:,.0f}" if v >= THOUSAND else f"{v:,.1f}" for v in values) or "-"


def _line(row: Sequence[Cell]) -> str:
    cells = []
    for cell in row:
        text, style = (
            (cell, "prose" if len(cell) > LONG_TEXT else "") if isinstance(cell, str) else cell
        )
        marked = f" class='{style}'" if style else ""
        cells.append(f"<td{marked}>{escape(text)}</td>")
    return f"<tr>{''.join(cells)}</tr>"
