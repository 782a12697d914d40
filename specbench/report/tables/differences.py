"""Tables of what differed besides the method, and of what does not fit together."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.properties import shown
from specbench.report.content import Content, Row
from specbench.report.tables.html import Cell, table, title


def differences_table(content: Content) -> str:
    """Give what differs between arms besides the method; arms that differ alike share a row."""
    alike: dict[tuple[str, ...], list[Row]] = {}
    for row in content.differences:
        told = (row[name] for name in ("denominator", "fact", "baseline", "arm_value", "meaning"))
        alike.setdefault((*told, f"{row['blocks']}"), []).append(row)
    body: list[Sequence[Cell]] = [
        [
            ", ".join(row["arm"] for row in found),
            row["denominator"],
            (title(row["fact"]), "bad") if row["controlled"] else title(row["fact"]),
            _stated(row, "baseline"),
            _stated(row, "arm_value"),
            row["direction"],
            row["scope"],
            ", ".join(map(str, row["blocks"])),
            row["meaning"],
        ]
        for found in alike.values()
        for row in found[:1]
    ]
    headers = (
        "arm",
        "compared with",
        "property",
        "baseline",
        "arm",
        "direction",
        "among arms",
        "blocks",
        "what it means",
    )
    return table(headers, body, empty="None that the servers' logs and configurations state.")


def cell_differences_table(content: Content) -> str:
    """Give what differs between a cell of an arm and the same cell of the baseline."""
    body = [
        [
            row["stratum"],
            row["sampling"],
            f"{row['load_point']:g}",
            row["arm"],
            row["denominator"],
            title(row["fact"]),
            row["baseline"],
            row["arm_value"],
            row["direction"],
            f"{row['block']}",
        ]
        for row in content.cell_differences
    ]
    headers = (
        "stratum",
        "sampling",
        "load",
        "arm",
        "compared with",
        "property",
        "baseline",
        "arm",
        "direction",
        "block",
    )
    return table(headers, body, empty="None that counters, graphs and requests show.")


def warnings_table(content: Content) -> str:
    """Give what servers warned of, and in how many deployments."""
    body = [
        [row["arm"], row["meaning"], row["fell"] or "", f"{row['deployments']}", row["line"]]
        for row in content.warnings
    ]
    headers = ("arm", "what it means", "where it fell", "deployments", "a line of the log")
    return table(headers, body, empty="None that changes what a measurement means.")


def anomalies_table(content: Content) -> str:
    """Give numbers that do not fit together, in words."""
    body = [
        [
            row["arm"],
            row["stratum"],
            row["sampling"],
            "all" if row["load_point"] is None else f"{row['load_point']:g}",
            row["sentence"],
        ]
        for row in content.anomalies
    ]
    headers = ("arm", "stratum", "sampling", "load", "what does not fit")
    return table(headers, body, empty="None was found.")


def _stated(row: Row, side: str) -> str:
    return shown(row["fact"], None if row[side] == "unknown" else row[side])
