"""The section that answers the question: what may be claimed of each arm, and why not more."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from specbench.report.content import Content, Row
from specbench.report.tables.html import Cell, number, table

GAINS = {
    "claimed": ("claimed", "gain"),
    "candidate": ("candidate: confirm it", "gain"),
    "withheld": ("withheld", "bad"),
    "not_shown": ("not shown", "open"),
}
REGRESSIONS = {
    "shown_absent": ("shown absent", ""),
    "present": ("present", "loss"),
    "unresolved": ("unresolved", "unsure"),
}


def decision_section(content: Content) -> str:
    """Give the ruling on every arm and workload, the A/A check it rests on, and the traffic mix."""
    parts = [
        _declared(content.decisions),
        _rulings(content.decisions),
        "<h3>The baseline against itself (A/A)</h3>",
        _noise_floors(content.aa_validity),
    ]
    if content.traffic_mix:
        parts += ["<h3>The declared traffic mix</h3>", _mixed(content.traffic_mix)]
    return "".join(parts)


def _declared(found: Iterable[Row]) -> str:
    """Give the rule that every ruling of the run was made by."""
    for row in found:
        said = (
            f"Here: {row['metric'].replace('_', ' ')}; material from +{row['materiality']:.0%}; a "
            f"loss over {row['regression_limit']:.0%} is a regression; {row['comparisons']} "
            "comparisons."
        )
        return f"<p>{escape(said)}</p>"
    return ""


def _rulings(found: Iterable[Row]) -> str:
    body: list[list[Cell]] = [
        [
            row["arm"],
            row["stratum"],
            row["sampling"],
            _loads(row["loads"]),
            number(row["estimate"], ".3f"),
            _interval(row),
            number(row["p_holm"], ".3g"),
            GAINS[row["gain"]],
            REGRESSIONS[row["regression"]],
            "; ".join([*row["reasons"], *row["missing"]]) or "-",
        ]
        for row in found
    ]
    headers = (
        "arm",
        "stratum",
        "sampling",
        "loads",
        "gain",
        "95% interval",
        "p (Holm)",
        "a gain is",
        "a regression is",
        "why no more",
    )
    return table(headers, body, empty="Nothing was compared, so nothing is ruled.")


def _noise_floors(found: Iterable[Row]) -> str:
    body: list[list[Cell]] = [
        [
            row["stratum"],
            row["sampling"],
            number(row["estimate"], ".3f"),
            _interval(row),
            f"{number(row['spread'], '.1%')} of {row['spread_bound']:.0%}",
            (row["outcome"], {"fail": "bad", "undecided": "unsure"}.get(row["outcome"], "")),
            row["reason"] or "-",
        ]
        for row in found
    ]
    headers = (
        "stratum",
        "sampling",
        "A/A ratio",
        "95% interval",
        "spread of allowed",
        "outcome",
        "why",
    )
    return table(
        headers, body, empty="The baseline was launched once a block: there is no A/A check."
    )


def _mixed(found: Iterable[Row]) -> str:
    body: list[list[Cell]] = [
        [
            row["arm"],
            row["sampling"],
            _loads([row["concurrency"] or row["arrival_rate"]]),
            ", ".join(
                f"{share:.0%} {stratum}"
                for stratum, share in zip(row["strata"], row["shares"], strict=True)
            ),
            number(row["speedup"], ".3f"),
            _interval(row),
            "; ".join(row["missing"]) or "-",
        ]
        for row in found
    ]
    headers = ("arm", "sampling", "load", "mix", "speed-up", "95% interval", "missing")
    return table(headers, body, empty="No block holds every stratum of the mix.")


def _loads(loads: Iterable[float]) -> str:
    return ", ".join(f"{load:g}" for load in loads)


def _interval(row: Row) -> str:
    if row["low"] is None:
        return str(row.get("interval_note") or "withheld")
    return f"{row['low']:.3f} to {row['high']:.3f}"
