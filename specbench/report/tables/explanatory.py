"""Tables that explain and decide nothing: step costs, correlations, drift and nodes."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.analysis.correlation import LEAST_ARMS, QUANTITIES
from specbench.analysis.intervals import CLAIM_BLOCKS
from specbench.report.content import Content, Row
from specbench.report.tables.html import Cell, number, table


def step_cost_table(content: Content) -> str:
    """Give cost, delivered and break-even acceptance of every cell, and what withholds them."""
    body: list[Sequence[Cell]] = [
        [
            row["stratum"],
            row["sampling"],
            f"{row['load_point']:g}",
            row["arm"],
            row["comparison"],
            f"{row['blocks']} of {row['blocks'] + len(row['missing'])}",
            _between(row["cost"], row["cost_low"], row["cost_high"]),
            number(row["delivered_per_step"], ".2f"),
            number(row["bound"], ".2f"),
            number(row["delivered_length"], ".2f"),
            _between(row["break_even_length"], row["length_low"], row["length_high"]),
            number(row["ceiling"], ".2f"),
            _acceptance(row),
        ]
        for row in content.break_evens
    ]
    headers = (
        "stratum",
        "sampling",
        "load",
        "arm",
        "baseline",
        "blocks",
        "step cost",
        "tokens / step",
        "bound",
        "length",
        "break-even length",
        "ceiling",
        "acceptance is",
    )
    return f"{table(headers, body, empty='No arm speculates.')}{_withheld(content)}"


def _withheld(content: Content) -> str:
    """Give why a block has no step cost, folded away; nothing where every block has one."""
    body = [
        [
            row["stratum"],
            row["sampling"],
            f"{row['load_point']:g}",
            row["arm"],
            row["comparison"],
            said,
        ]
        for row in content.break_evens
        for said in row["missing"]
    ]
    if not body:
        return ""
    headers = ("stratum", "sampling", "load", "arm", "baseline", "why")
    told = table(headers, body, empty="")
    return f"<details><summary>{len(body)} step costs withheld</summary>{told}</details>"


def correlations_table(content: Content) -> str:
    """Give how acceptance goes with speed over arms; a sentence where arms are too few."""
    cells: dict[tuple[str, ...], dict[tuple[str, str], str]] = {}
    for row in content.correlations:
        if row["pearson"] is not None:
            place = (row["stratum"], row["sampling"], f"{row['load_point']:g}", f"{row['arms']}")
            told = f"{row['spearman']:+.2f} ({row['pearson']:+.2f})"
            cells.setdefault(place, {})[row["quantity"], row["metric"]] = told
    if not cells:
        few = max((row["arms"] for row in content.correlations), default=0)
        said = f"No correlation over arms: it needs {LEAST_ARMS} with acceptance, here are {few}."
        return table((), (), empty=said)
    asked = [(quantity, metric) for quantity in QUANTITIES for metric in METRIC_TITLES]
    headers = (
        "stratum",
        "sampling",
        "load",
        "arms",
        *(f"{quantity.removeprefix('acceptance_')}, {METRIC_TITLES[m]}" for quantity, m in asked),
    )
    body = [[*place, *(found.get(which, "-") for which in asked)] for place, found in cells.items()]
    told = table(headers, body, empty="")
    return (
        "<h3>Correlations over arms (explanatory)</h3><p class='about'>Acceptance rate and length "
        "against the ratio to the baseline: Spearman, and in brackets Pearson with the log ratio. "
        "One point an arm. Above 1 is good for throughput and bad for times, so that useful "
        f"acceptance goes up with the one and down with the others.</p>{told}"
    )


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
    """Say on which side of the break-even the delivered acceptance lies, as far as blocks tell."""
    if row["cost"] is None:
        return "withheld"
    if row["length_low"] is None:
        return "no interval"
    wide = ", wide" if row["blocks"] < CLAIM_BLOCKS else ""
    if row["delivered_length"] > row["length_high"]:
        return f"above{wide}", "open" if wide else "gain"
    if row["delivered_length"] < row["length_low"]:
        return f"below{wide}", "open" if wide else "loss"
    return f"near break-even{wide}"


def _between(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if low is None else f"{value:.2f} ({low:.2f} to {high:.2f})"
