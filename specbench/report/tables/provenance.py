"""The table of where the numbers come from, and the commands behind them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape

from specbench.report.content import Content
from specbench.report.tables.html import Cell, table


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


def _versions(found: Mapping[str, str | None]) -> str:
    return ", ".join(f"{name} {version}" for name, version in found.items())
