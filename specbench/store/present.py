"""Rows of a query as text: a table for people, csv and json for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

Rows = list[dict[str, Any]]
WIDEST = 200
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
"""With these a spreadsheet takes a text for a formula, and runs it."""


def present(rows: Rows, style: str) -> str:
    """Give rows as `table`, `csv` or `json`."""
    if style == "json":
        return json.dumps(rows, indent=1, default=str) + "\n"
    if style == "csv":
        return _csv(rows)
    return _table(rows)


def csv_line(values: Iterable[Any]) -> str:
    """Give values as a line of CSV that a spreadsheet shows and never runs; lists become JSON."""
    file = io.StringIO()
    # With this terminator the writer also quotes a carriage return, which would end the row.
    csv.writer(file, lineterminator="\r\n").writerow([_csv_cell(value) for value in values])
    return file.getvalue().removesuffix("\r\n") + "\n"


def _csv_cell(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(value, default=str)
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value


def _csv(rows: Rows) -> str:
    return "".join(map(csv_line, [rows[0], *(row.values() for row in rows)])) if rows else ""


def _table(rows: Rows) -> str:
    if not rows:
        return "no rows\n"
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, value in rows[0].items():
        table.add_column(name, justify="right" if _is_number(value) else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_shown(value)) for value in row.values()))
    file = io.StringIO()
    Console(file=file, width=WIDEST, no_color=True).print(table)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"  # noqa: PLR2004 - four digits
    return str(value)
