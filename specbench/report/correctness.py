"""The correctness panel: verdicts beside their controls, and where outputs part."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from specbench.judge.correctness import MEANING
from specbench.report.content import Content, Row
from specbench.report.tables.html import Cell, table

SHOWN = 4
"""Divergences that are quoted for each verdict; the table `divergences` holds all."""
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
        f"<p><span class='bad'>{escape(row['arm'])}: nothing is claimed of it: "
        f"{escape(row['barred'])}</span>{escape(_explained(row))}</p>"
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
            row["reason"] + _explained(row),
            f"{row['exact']} of {row['outputs']}",
            f"{row['control_exact']} of {row['control_outputs']}",
            _measure(row, "prefix_fraction"),
            _measure(row, "edit_distance"),
            _measure(row, "tokens"),
            f"{row['near_ties']} / {row['unexplained']} / {row['divergences']}",
        ]
        for row in content.correctness
    ]
    headers = (
        "arm",
        "conc.",
        "verdict",
        "why",
        "equal texts",
        "of the control",
        "least prefix: arm / allowed / control",
        "most edits",
        "most tokens apart",
        "divergences: near ties / unexplained / all",
    )
    return table(headers, body, empty="")


def _measure(row: Row, name: str) -> str:
    """Give the arm's worst, what is allowed, and the control's worst."""
    found = (row[name], row[f"{name}_allowance"], row[f"{name}_control"])
    return "-" if None in found else " / ".join(f"{value:.3g}" for value in found)


def _controls(content: Content) -> str:
    body = [
        [
            row["arm"],
            f"{row['concurrency']}",
            f"{row['kind']} of {row['control_arm']}",
            _use(row),
            f"{row['exact']} of {row['outputs']}",
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


def _use(row: Row) -> str:
    if row["compared"]:
        return "compared with"
    return "excuses nothing" if row["control_arm"] == row["arm"] else "can only explain"


def _divergences(content: Content) -> str:
    of_verdict: dict[tuple[object, ...], list[Row]] = {}
    for row in sorted(content.divergences, key=lambda row: row["explained"]):
        of_verdict.setdefault((row["arm"], row["concurrency"]), []).append(row)
    shown = [row for found in of_verdict.values() for row in found[:SHOWN]]
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
        for row in shown
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
    more = len(content.divergences) - len(shown)
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
