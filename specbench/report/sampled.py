"""The section of a report on outputs of samplings that are not greedy."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from specbench.report.content import Content, Row
from specbench.report.tables.html import Cell, table

TITLE = "Sampled outputs"
ABOUT = (
    "Sampled outputs of equal servers differ, so they are never counted as equal or not. Each row "
    "asks whether the arm is further from the baseline than another deployment of the baseline's "
    "own configuration is: a permutation test, its p adjusted for all rows of the run (Holm). None "
    "shown is no evidence of a difference. It does not prove that there is none."
)
RESPECTS = {
    "length": ("length", "{:.2f} tokens"),
    "first_token": ("first token", "{:.1%}"),
    "ngram": ("pairs of tokens", "{:.1%}"),
}


def sampled_section(content: Content) -> str:
    """Give the section, or nothing for a run whose samplings are all greedy."""
    if not content.sampled_outputs:
        return ""
    headers = (
        "stratum",
        "sampling",
        "load",
        "arm",
        "in",
        "arm from baseline",
        "control from baseline",
        "control",
        "outputs a side",
        "p adjusted",
        "difference",
    )
    body = [_cells(row) for row in content.sampled_outputs]
    return (
        f"<h2>{escape(TITLE)}</h2><p class='about'>{escape(ABOUT)}</p>"
        f"{table(headers, body, empty='')}"
    )


def _cells(row: Row) -> Sequence[Cell]:
    name, style = RESPECTS.get(row["respect"], ("nothing", ""))
    compared = row["p_value"] is not None
    return [
        row["stratum"],
        row["sampling"],
        f"{row['load_point']:g}",
        row["arm"],
        name,
        style.format(row["arm_distance"]) if compared else "-",
        style.format(row["control_distance"]) if compared else "-",
        row["control"] or "none",
        f"{row['outputs']}",
        f"{row['p_adjusted']:.3f}" if compared else "-",
        _outcome(row),
    ]


def _outcome(row: Row) -> Cell:
    match row["outcome"]:
        case "differs":
            return "differs", "bad"
        case "undecided":
            return f"undecided: {row['reason']}", "unsure prose"
        case _:
            return "none shown"
