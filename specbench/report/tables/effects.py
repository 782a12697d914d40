"""The table of effects: each beside its absolute values, repeats and what else differed."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from specbench.report.content import Content, Row
from specbench.report.tables.html import Cell, span, table, title

ROLES = {"noise_floor": " (A/A)", "equalised": " (the baseline with settings of an arm)"}


def effects_table(content: Content) -> str:
    """Give every throughput effect beside its absolute values, repeats and what else differed.

    An arm that has an equalised comparison has its row of that right under the shipped one.
    """
    repeats: dict[tuple[object, ...], list[Row]] = {}
    for row in (*content.repeats, *content.equalised_repeats):
        repeats.setdefault(_key(row), []).append(row)
    body = []
    effects = [
        effect
        for effect in sorted((*content.effects, *content.equalised), key=_order)
        if effect["metric"] == "output_throughput"
    ]
    notes = _notes(content, effects)
    for effect in effects:
        found = repeats.get(_key(effect), [])
        body.append(
            [
                effect["stratum"],
                effect["sampling"],
                f"{effect['load_point']:g}",
                effect["arm"] + ROLES.get(effect["role"], ""),
                _compared(effect),
                _ratio(effect),
                _interval(effect),
                _correctness(effect),
                " ".join(f"{notes[said]}" for said in _differing(content, effect)) or "-",
                (", ".join(f"{row['ratio']:.3f}" for row in found) or "-", "list"),
                (span([row["baseline"] for row in found]), "list"),
                (span([row["arm_value"] for row in found]), "list"),
                "; ".join(effect["missing"]) or "-",
            ]
        )
    headers = (
        "stratum",
        "sampling",
        "load",
        "arm",
        "compared with",
        "speed-up",
        "95% interval",
        "correctness",
        "differs in",
        "every block",
        "baseline tok/s",
        "arm tok/s",
        "missing",
    )
    told = "".join(f"<li>{escape(said)}</li>" for said in notes)
    what = f"<p>What else differed, by number:</p><ol class='notes'>{told}</ol>" if told else ""
    empty = "No block has both the baseline and another arm."
    return f"{table(headers, body, empty=empty)}{what}"


def _order(effect: Row) -> tuple[object, ...]:
    shipped = effect["comparison"] == "shipped"
    return effect["stratum"], effect["load_point"], effect["arm"], not shipped


def _correctness(effect: Row) -> Cell:
    """Give the verdict that the arm carries, and why nothing is claimed of it."""
    if effect["barred"]:
        said = f"; {effect['explanation']}" if effect["explanation"] else ""
        return f"{effect['correctness']}; not claimed: {effect['barred']}{said}", "bad prose"
    return effect["correctness"] or "not captured"


def _compared(effect: Row) -> str:
    shipped = effect["comparison"] == "shipped"
    return str(effect["denominator"]) + ("" if shipped else " (equalised)")


def _differing(content: Content, effect: Row) -> list[str]:
    """Give what differed in the arm and in this cell, and whom that favours."""
    point = [effect[name] for name in ("stratum", "sampling", "load_point")]
    rows = [
        *content.differences,
        *(
            row
            for row in content.cell_differences
            if [row[name] for name in ("stratum", "sampling", "load_point")] == point
        ),
    ]
    return list(
        dict.fromkeys(
            f"{title(row['fact'])} ({row['direction']})"
            for row in rows
            if (row["arm"], row["denominator"]) == (effect["arm"], effect["denominator"])
        )
    )


def _notes(content: Content, effects: Sequence[Row]) -> dict[str, int]:
    """Give everything that differed somewhere, numbered in the order of the rows."""
    said = dict.fromkeys(said for effect in effects for said in _differing(content, effect))
    return {name: place for place, name in enumerate(said, start=1)}


def _key(row: Row) -> tuple[object, ...]:
    return row["denominator"], row["arm"], row["stratum"], row["sampling"], row["load_point"]


def _ratio(effect: Row) -> Cell:
    """Give the estimate, coloured only where its interval excludes 1."""
    if effect["estimate"] is None:
        return "withheld"
    shown = f"{effect['estimate']:.3f}x"
    if effect["low"] is not None and effect["low"] > 1:
        return shown, "gain"
    if effect["high"] is not None and effect["high"] < 1:
        return shown, "loss"
    return shown, "open"


def _interval(effect: Row) -> str:
    bounds = "" if effect["low"] is None else f"{effect['low']:.3f} to {effect['high']:.3f}"
    return ", ".join(part for part in (bounds, effect["interval_note"]) if part)
