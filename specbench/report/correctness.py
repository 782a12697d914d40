"""The correctness panel: verdicts beside their controls, and where outputs part."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from specbench.judge.correctness import MEANING
from specbench.report.content import Content, Row
from specbench.report.tables import Cell, table

SHOWN = 12
"""Divergences that are quoted; the table `divergences` holds all."""
CLASSES = {"pass": "", "pass-explained": "", "undecided": "unsure", "blocked": "bad"}


def correctness_panel(content: Content) -> str:
    """Give the panel, or the sentence that nothing was captured."""
    if not content.correctness:
        said = "No arm was captured together with its baseline, so nothing is known of its outputs."
        return f"{_marks(content)}<p class='empty'>{said}</p>"
    return (
        f"{_marks(content)}<p class='about'>{escape(MEANING)} Exact matches are shown, not "
        "gated.</p>"
        f"{_verdicts(content)}<h3>Controls: how far equal servers differ</h3>{_controls(content)}"
        f"<h3>Where outputs part</h3>{_divergences(content)}"
    )


def _marks(content: Content) -> str:
    """Name every arm of which nothing may be claimed, whatever its numbers."""
    return "".join(
        f"<p class='bad'>{escape(row['arm'])}: nothing is claimed of it: {escape(row['barred'])}"
        f"{escape(_explained(row))}</p>"
        for row in content.arm_correctness
        if row["barred"]
    )


def _explained(row: Row) -> str:
    said = row["explanation"]
    return f". Explanation on record, which is no pass: {said}" if said else ""


def _verdicts(content: Content) -> str:
    body: list[Sequence[Cell]] = [
        [
            row["arm"],
            f"{row['concurrency']}",
            (row["verdict"], CLASSES[row["verdict"]]),
            f"{row['exact']} of {row['outputs']}",
            f"{row['control_exact']} of {row['control_outputs']}",
            _measure(row, "prefix_fraction", "at least"),
            _measure(row, "edit_distance", "at most"),
            _measure(row, "tokens", "at most"),
            f"{row['divergences']}: {row['near_ties']} near ties, {row['unexplained']} unexplained",
            row["reason"] + _explained(row),
        ]
        for row in content.correctness
    ]
    headers = (
        "arm",
        "conc.",
        "verdict",
        "equal texts",
        "of the control",
        "common prefix, least",
        "edit distance, most",
        "tokens apart, most",
        "divergences",
        "why",
    )
    return table(headers, body, empty="")


def _measure(row: Row, name: str, bound: str) -> str:
    if row[name] is None:
        return "-"
    return (
        f"{row[name]:.3g} (control {row[f'{name}_control']:.3g}, {bound} "
        f"{row[f'{name}_allowance']:.3g})"
    )


def _controls(content: Content) -> str:
    body = [
        [
            row["arm"],
            f"{row['concurrency']}",
            f"{row['kind']} of {row['control_arm']}",
            "compared with" if row["compared"] else "reported, can only explain",
            f"{row['exact']} of {row['outputs']} in {row['pairs']} pairs",
            f"{row['prefix_fraction']:.3g}",
            f"{row['edit_distance']:.3g}",
            f"{row['tokens']}",
        ]
        for row in content.correctness_controls
    ]
    headers = (
        "verdict on",
        "conc.",
        "control",
        "use",
        "equal texts",
        "common prefix, least",
        "edit distance, most",
        "tokens apart, most",
    )
    return table(headers, body, empty="There is no control.")


def _divergences(content: Content) -> str:
    found = sorted(content.divergences, key=lambda row: row["explained"])
    body: list[Sequence[Cell]] = [
        [
            row["arm"],
            f"{row['concurrency']}",
            row["prompt_id"],
            f"character {row['character']}"
            + ("" if row["token"] is None else f", token {row['token']}"),
            _behind(row),
            _why(row),
            row["before"] or "(start)",
            row["reference"] or "(end)",
            row["other"] or "(end)",
        ]
        for row in found[:SHOWN]
    ]
    headers = (
        "arm",
        "conc.",
        "prompt",
        "where",
        "behind the best",
        "explained",
        "text before",
        "baseline goes on",
        "arm goes on",
    )
    more = len(found) - SHOWN
    told = f"<p class='about'>And {more} more: table divergences.</p>" if more > 0 else ""
    return table(headers, body, empty="No output parts from the baseline's.") + told


def _behind(row: Row) -> str:
    if row["behind_nats"] is not None:
        return f"{row['behind_nats']:.3g} nats"
    return "unknown" if row["beyond_nats"] is None else f"over {row['beyond_nats']:.3g} nats"


def _why(row: Row) -> Cell:
    if row["near_tie"]:
        return "near tie"
    if row["shown_by"]:
        return f"shown by {row['shown_by']}"
    return ("unknown", "unsure") if row["near_tie"] is None else ("no", "bad")
