"""Tables that explain and decide nothing: step costs, correlations, drift and nodes."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.report.content import Content, Row
from specbench.report.tables.effects import compared
from specbench.report.tables.html import Cell, number, table

PAYS, COSTS = "pays", "does not pay"


def step_cost_table(content: Content) -> str:
    """Give cost, delivered and break-even acceptance of every cell, and what withholds them."""
    body: list[Sequence[Cell]] = [
        [
            row["stratum"],
            row["sampling"],
            f"{row['load_point']:g}",
            row["arm"],
            compared(row),
            f"{row['blocks']}",
            _between(row["cost"], row["cost_low"], row["cost_high"]),
            number(row["delivered_per_step"], ".2f"),
            number(row["bound"], ".2f"),
            number(row["delivered_length"], ".2f"),
            _between(row["break_even_length"], row["length_low"], row["length_high"]),
            number(row["ceiling"], ".2f"),
            _acceptance(row),
            "; ".join([*([row["interval_note"]] if row["blocks"] else []), *row["missing"]]) or "-",
        ]
        for row in content.break_evens
    ]
    headers = (
        "stratum",
        "sampling",
        "load",
        "arm",
        "compared with",
        "blocks",
        "step cost",
        "tokens / step",
        "bound",
        "length",
        "break-even length",
        "ceiling",
        "acceptance",
        "notes",
    )
    return table(headers, body, empty="No arm speculates.")


def correlations_table(content: Content) -> str:
    """Give how acceptance goes with speed over arms; a sentence where arms are too few."""
    body = [
        [
            row["stratum"],
            row["sampling"],
            f"{row['load_point']:g}",
            row["quantity"].replace("_", " "),
            METRIC_TITLES[row["metric"]],
            f"{row['arms']}",
            number(row["pearson"], "+.2f"),
            number(row["spearman"], "+.2f"),
            row["note"] or "-",
        ]
        for row in content.correlations
        if row["pearson"] is not None
    ]
    if not body:
        few = max((row["arms"] for row in content.correlations), default=0)
        return table(
            (), (), empty=f"No correlation over arms: {few} have acceptance, 4 are needed."
        )
    headers = (
        "stratum",
        "sampling",
        "load",
        "acceptance",
        "against arm / baseline of",
        "arms",
        "Pearson (log ratio)",
        "Spearman",
        "notes",
    )
    return f"<h3>Correlations over arms (explanatory)</h3>{table(headers, body, empty='')}"


METRIC_TITLES = {
    "output_throughput": "throughput",
    "tpot_p50_s": "TPOT p50",
    "ttft_p50_s": "TTFT p50",
}


def drift_table(content: Content) -> str:
    """Give how the decision metric moved with place and hours, and by how much nodes differ."""
    body = [
        [
            row["stratum"],
            row["sampling"],
            f"{row['load_point']:g}",
            "a place later in the block" if row["factor"] == "place" else "an hour later",
            "-" if row["change"] is None else f"{row['change'] - 1:+.2%}",
            "-" if row["low"] is None else f"{row['low'] - 1:+.2%} to {row['high'] - 1:+.2%}",
            f"{row['deployments']}",
            row["note"] or "-",
        ]
        for row in content.drift
    ]
    headers = ("stratum", "sampling", "load", "per", "change", "95%", "deployments", "notes")
    told = table(headers, body, empty="Nothing was compared, so that no drift is told.")
    return f"{told}{_nodes(content)}"


def _nodes(content: Content) -> str:
    hosts = sorted({row["host"] for row in content.deployments if row["host"]})
    if len(hosts) < 2:  # noqa: PLR2004 - one node cannot differ
        named = f" ({hosts[0]})" if hosts else ""
        return table((), (), empty=f"One node{named}: how far nodes differ is not known.")
    body = [
        [
            row["host"],
            row["arm"],
            row["stratum"],
            row["sampling"],
            f"{row['load_point']:g}",
            f"{row['ratio'] - 1:+.2%}",
            f"{row['deployments']}",
        ]
        for row in content.nodes
    ]
    headers = ("node", "arm", "stratum", "sampling", "load", "against all nodes", "deployments")
    return f"<h3>Nodes</h3>{table(headers, body, empty='No arm ran on two nodes.')}"


def _acceptance(row: Row) -> Cell:
    """Say whether the acceptance that was delivered pays for the step, as far as blocks tell."""
    if row["cost"] is None:
        return "withheld"
    if row["length_low"] is None:
        return "no interval"
    if row["delivered_length"] > row["length_high"]:
        return PAYS, "gain"
    if row["delivered_length"] < row["length_low"]:
        return COSTS, "loss"
    return "within the interval", "open"


def _between(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if low is None else f"{value:.2f} ({low:.2f} to {high:.2f})"
