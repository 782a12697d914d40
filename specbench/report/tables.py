"""HTML tables of a run. Everything that comes from outside is escaped."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from specbench.properties import property_of, shown
from specbench.report.content import Content, Row

Cell = str | tuple[str, str]
"""Text, or text and a CSS class."""

ROLES = {"noise_floor": " (A/A)", "equalised": " (the baseline with settings of an arm)"}

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


def effects_table(content: Content) -> str:
    """Give every throughput effect beside its absolute values, repeats and what else differed.

    An arm that has an equalised comparison has its row of that right under the shipped one.
    """
    repeats: dict[tuple[object, ...], list[Row]] = {}
    for row in (*content.repeats, *content.equalised_repeats):
        repeats.setdefault(_key(row), []).append(row)
    body = []
    for effect in sorted((*content.effects, *content.equalised), key=_order):
        if effect["metric"] != "output_throughput":
            continue
        found = repeats.get(_key(effect), [])
        body.append(
            [
                effect["stratum"],
                effect["sampling"],
                f"{effect['load_point']:g}",
                effect["arm"] + ROLES.get(effect["role"], ""),
                _compared(effect),
                _ratio(effect),
                _differing(content, effect),
                _interval(effect),
                _correctness(effect),
                ", ".join(f"{row['ratio']:.3f}" for row in found) or "-",
                _span([row["baseline"] for row in found]),
                _span([row["arm_value"] for row in found]),
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
        "what else differed",
        "95% interval",
        "correctness",
        "every block",
        "baseline tok/s",
        "arm tok/s",
        "missing",
    )
    return table(headers, body, empty="No block has both the baseline and another arm.")


def _order(effect: Row) -> tuple[object, ...]:
    shipped = effect["comparison"] == "shipped"
    return effect["stratum"], effect["load_point"], effect["arm"], not shipped


def _correctness(effect: Row) -> Cell:
    """Give the verdict that the arm carries, and why nothing is claimed of it."""
    if effect["barred"]:
        said = f"; {effect['explanation']}" if effect["explanation"] else ""
        return f"{effect['correctness']}; not claimed: {effect['barred']}{said}", "bad"
    return effect["correctness"] or "not captured"


def _compared(effect: Row) -> str:
    shipped = effect["comparison"] == "shipped"
    return f"{effect['denominator']} ({'as shipped' if shipped else 'equalised'})"


def _differing(content: Content, effect: Row) -> str:
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
    found = dict.fromkeys(
        f"{title(row['fact'])} ({row['direction']})"
        for row in rows
        if (row["arm"], row["denominator"]) == (effect["arm"], effect["denominator"])
    )
    return ", ".join(found) or "nothing that is known"


def cells_table(content: Content) -> str:
    """Give every measured window, rejected ones too."""
    body = [
        [
            cell["stratum"],
            cell["sampling"],
            f"{cell['load_point']:g}",
            cell["arm"],
            f"{cell['block']}" + (" split" if cell["split"] else ""),
            f"{cell['successes']} / {cell['requests']}",
            _number(cell["output_throughput"], ",.1f"),
            _number(cell["steady_throughput"], ",.1f"),
            _ms(cell["tpot_p50_s"], 2),
            _ms(cell["ttft_p50_s"], 1),
            _p95(cell),
            _number(cell["achieved_concurrency"], ".2f"),
            _number(cell["acceptance_rate"], ".1%"),
            _number(cell["acceptance_length"], ".2f"),
            _number(cell["tokens_per_step"], ".2f"),
            ("rejected", "bad") if cell["rejected"] else "ok",
        ]
        for cell in content.cells
    ]
    headers = (
        "stratum",
        "sampling",
        "load",
        "arm",
        "block",
        "successes",
        "tok/s",
        "steady tok/s",
        "TPOT p50 ms",
        "TTFT p50 ms",
        "E2E p95 s",
        "reached conc.",
        "accepted / drafted",
        "accept. length",
        "tokens / step",
        "cell",
    )
    return table(headers, body, empty="No cell was measured.")


def differences_table(content: Content) -> str:
    """Give what differs between arms besides the method."""
    body: list[Sequence[Cell]] = [
        [
            row["arm"],
            row["denominator"],
            (title(row["fact"]), "bad") if row["controlled"] else title(row["fact"]),
            _stated(row, "baseline"),
            _stated(row, "arm_value"),
            row["direction"],
            row["scope"],
            ", ".join(map(str, row["blocks"])),
            row["meaning"],
        ]
        for row in content.differences
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


def _stated(row: Row, side: str) -> str:
    return shown(row["fact"], None if row[side] == "unknown" else row[side])


def warnings_table(content: Content) -> str:
    """Give what servers warned of, and in how many deployments."""
    body = [
        [row["arm"], row["meaning"], f"{row['deployments']}", row["line"]]
        for row in content.warnings
    ]
    headers = ("arm", "what it means", "deployments", "a line of the log")
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


def failures_table(content: Content) -> str:
    """Give deployments that were not measured to the end, and arms that were not launched."""
    body: list[Sequence[Cell]] = [
        [
            row["arm"],
            ("not launched", "unsure"),
            "unservable",
            "; ".join(row["reasons"]),
            "run with --launch-unservable to try it",
        ]
        for row in content.unservable
    ]
    body += [
        [
            row["deployment_id"].rsplit("/", 1)[1],
            (row["status"], "bad"),
            row["cause_kind"] or "-",
            row["reason"] or "-",
            row["remedy"] or "-",
        ]
        for row in content.deployments
        if row["status"] != "complete"
    ]
    headers = ("deployment", "status", "kind", "reason", "what to do")
    done = "Every launch was measured to its end."
    return table(headers, body, empty=done if content.deployments else "No launch has ended yet.")


def verdicts_table(content: Content) -> str:
    """Give every verdict that is no pass."""
    body = [
        [
            row["place"].split("/", 1)[1],
            row["gate"],
            (row["outcome"], "bad" if row["outcome"] == "fail" else "unsure"),
            row["observed"],
            row["required"],
            row["advice"] or "-",
        ]
        for row in content.verdicts
    ]
    headers = ("where", "gate", "outcome", "observed", "required", "advice")
    done = "Every gate passed."
    return table(headers, body, empty=done if content.cells else "Nothing was measured to rule on.")


def provenance_table(content: Content) -> str:
    """Give where the numbers come from."""
    row = content.experiment
    origin = json.loads(row["provenance"])
    software, machine = origin["software"], origin["machine"]
    workloads = ", ".join(f"{w['path']} {w['sha256'][:12]}" for w in origin["workloads"])
    tokenizer = (origin["target"].get("tokenizer") or {}).get("tokenizer.json")
    config = (origin["target"].get("config") or {}).get("config.json")
    body: list[Sequence[Cell]] = [
        ("run", row["run_id"]),
        ("specbench", f"{row['specbench_version']}, revision {row['git'] or 'unknown'}"),
        ("engine", f"{row['engine']} {row['engine_version'] or '(version unknown)'}"),
        ("engine libraries", _versions(origin["engine_libraries"]) or "none of those looked for"),
        ("model", row["model"]),
        ("model config sha256", config or "unknown: no local checkpoint"),
        ("tokenizer sha256", tokenizer or "unknown: no local checkpoint"),
        ("workloads", workloads),
        ("host", f"{machine['host']}, {machine['platform']}"),
        ("processor", f"{machine['cpu']}, {machine['cpus']} logical"),
        ("accelerators", ", ".join(machine["gpus"]) or "none seen"),
        ("compile cache", json.loads(row["plan"])["experiment"]["target"]["compile_cache"]),
        ("client clock", ", ".join(sorted({cell["clock"] for cell in content.cells})) or "-"),
        ("python", f"{software['python']}; {_versions(software['libraries'])}"),
    ]
    return table(("what", "value"), body, empty="")


def commands(content: Content) -> str:
    """Give the command of each arm as it was launched first."""
    shown: dict[str, str] = {}
    for row in content.deployments:
        if row["command"]:
            shown.setdefault(row["arm"], " ".join(row["command"]))
    return "".join(
        f"<dt>{escape(arm)}</dt><dd><code>{escape(command)}</code></dd>"
        for arm, command in shown.items()
    )


def _line(row: Sequence[Cell]) -> str:
    cells = []
    for cell in row:
        text, style = (
            (cell, "prose" if len(cell) > LONG_TEXT else "") if isinstance(cell, str) else cell
        )
        marked = f" class='{style}'" if style else ""
        cells.append(f"<td{marked}>{escape(text)}</td>")
    return f"<tr>{''.join(cells)}</tr>"


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


def _span(values: Sequence[float]) -> str:
    return ", ".join(f"{value:,.1f}" for value in values) or "-"


def _number(value: float | None, style: str) -> str:
    return "-" if value is None else format(value, style)


def _versions(found: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {version}" for name, version in found.items())


def _ms(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value * 1000:,.{digits}f}"


def _p95(cell: Row) -> str:
    if cell["e2e_p95_s"] is None:
        return "withheld"
    return f"{cell['e2e_p95_s']:.3f}" + (" (weak)" if cell["p95_weak"] else "")
