"""The command that audits any launch log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from specbench.cli.inspecting import json_option

QUOTED = 96
"""Characters of a source that a table shows."""


@click.command()
@click.argument(
    "places",
    metavar="LAUNCH.LOG [OTHER.LOG]...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
)
@click.option("--engine", default="vllm", show_default=True, help="The server family.")
@json_option
def audit(places: tuple[Path, ...], engine: str, as_json: bool) -> None:
    """Say what a server really ran, by its launch log; of several, what differs from the first.

    A folder with launch.log and server_info.json, such as one deployment of a run, is read whole.
    """
    from specbench.engines.known import ENGINES
    from specbench.inspection.audits import audit_facts, audit_of, compared, comparison_facts

    if engine not in ENGINES:
        raise click.BadParameter(
            f"{engine!r} is none of {', '.join(ENGINES)}", param_hint="--engine"
        )
    audits = [audit_of(place, engine) for place in places]
    said = [audit_facts(item) for item in audits]
    differing = comparison_facts(compared(audits))
    if as_json:
        facts = {"audits": said} | ({"differences": differing} if len(audits) > 1 else {})
        click.echo(json.dumps(facts, indent=1))
    elif len(audits) == 1:
        click.echo("\n".join(_audit_lines(said[0])))
    else:
        click.echo("\n".join(_comparison_lines(said, differing)))


def _audit_lines(item: dict[str, Any]) -> Iterator[str]:
    from specbench.properties import property_of
    from specbench.store.present import present

    yield item["place"]
    rows = [
        {"property": property_of(name).title, "value": fact["shown"], "source": _quoted(fact)}
        for name, fact in item["facts"].items()
    ]
    yield present(rows, "table").rstrip("\n") if rows else "the log states nothing that is known"
    yield f"unknown: {', '.join(property_of(name).title for name in item['unknown']) or 'nothing'}"
    for warning in item["warnings"]:
        yield f"warning: {warning['meaning']}: {warning['line'][:QUOTED]}"
    yield from _cause_lines(item)


def _cause_lines(item: dict[str, Any]) -> Iterator[str]:
    if cause := item["cause"]:
        yield f"{item['place']} did not stay up: {cause['kind']}: {cause['line']}"
        yield f"  {cause['remedy']}"


def _comparison_lines(said: list[dict[str, Any]], differing: list[dict[str, Any]]) -> Iterator[str]:
    from specbench.store.present import present

    yield f"baseline: {said[0]['place']}"
    rows = [
        {
            "arm": row["arm"],
            "property": row["title"],
            "baseline": _shown(row, "baseline"),
            "its value": _shown(row, "arm_value"),
            "direction": "rejects the comparison" if row["controlled"] else row["direction"],
            "arms": row["scope"],
        }
        for row in differing
    ]
    yield present(rows, "table").rstrip("\n") if rows else "nothing differs that the logs state"
    for item in said:
        yield from _cause_lines(item)


def _shown(row: dict[str, Any], side: str) -> str:
    from specbench.properties import shown

    value: str = row[side]
    return shown(str(row["fact"]), None if value == "unknown" else value)


def _quoted(fact: dict[str, Any]) -> str:
    source: str = fact["source"]
    return source if len(source) <= QUOTED else source[:QUOTED] + "..."
