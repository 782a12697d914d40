"""Commands that look at raw runs, and one that hands their tables to other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from specbench.cli.options import note_looks, results_option, runs_option

FORMATS = ("csv", "parquet")
json_option = click.option("--json", "as_json", is_flag=True, help="For machines.")


@click.command("runs")
@runs_option
@json_option
def runs_command(runs: Path, as_json: bool) -> None:
    """List every run: how far it is, and when it last did something."""
    from specbench.artifacts import find_runs
    from specbench.cli.run_text import run_facts, runs_lines
    from specbench.inspection.state import run_state

    states = [run_state(folder) for folder in find_runs(runs)]
    _say([run_facts(state) for state in states] if as_json else runs_lines(states), as_json)


@click.command()
@click.argument("run", required=False)
@runs_option
@json_option
def status(run: str | None, runs: Path, as_json: bool) -> None:
    """Show how far RUN is, and the command that goes on (the newest run when left out).

    RUN is a folder, its name, or the start of its name.
    """
    from specbench.cli.run_text import status_facts, status_lines
    from specbench.inspection.places import find_run
    from specbench.inspection.state import run_state

    state = run_state(find_run(runs, run))
    _say(status_facts(state) if as_json else status_lines(state), as_json)


@click.command()
@click.argument("place", metavar="RUN/DEPLOYMENT[/CELL]")
@runs_option
@json_option
def show(place: str, runs: Path, as_json: bool) -> None:
    """Show what one deployment, or one cell of it, left.

    DEPLOYMENT may leave out the attempt: then it is the newest.
    """
    from specbench.cli.run_text import place_lines
    from specbench.inspection.places import find_place, place_facts

    facts = place_facts(find_place(runs, place))
    _say(facts if as_json else place_lines(facts), as_json)


@click.command()
@click.argument("run", required=False)
@runs_option
def verify(run: str | None, runs: Path) -> None:
    """Compute the digests of RUN's evidence again (of every run when left out)."""
    from specbench.artifacts import find_runs
    from specbench.cli.run_text import check_lines
    from specbench.errors import StoreError
    from specbench.inspection.digests import check_run
    from specbench.inspection.places import find_run

    folders = find_runs(runs) if run is None else [find_run(runs, run)]
    if not folders:
        raise StoreError(f"there is no run in {runs}", "name the folder with --runs")
    checks = []
    for folder in folders:
        checks.append(check_run(folder))
        _say(check_lines(checks[-1]))
    cells = [cell for check in checks for cell in check.cells]
    click.echo(f"{sum(cell.holds for cell in cells)} of {len(cells)} cells are whole")
    if broken := [check.run for check in checks if not check.holds]:
        raise StoreError(f"not as it was written: {', '.join(broken)}")


def _formats(_: click.Context, __: click.Parameter, text: str) -> tuple[str, ...]:
    formats = tuple(dict.fromkeys(text.split(",")))
    wrong = [name for name in formats if name not in FORMATS]
    if wrong:
        raise click.BadParameter(f"{wrong[0]!r} is none of {', '.join(FORMATS)}")
    return formats


@click.command()
@click.argument("run_id")
@runs_option
@results_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder of the files.",
)
@click.option(
    "--format",
    "formats",
    default=",".join(FORMATS),
    show_default=True,
    callback=_formats,
    help="csv, parquet or both.",
)
def export(run_id: str, runs: Path, results: Path, out: Path, formats: tuple[str, ...]) -> None:
    """Write the tables of RUN_ID as files, one a table and format."""
    from specbench.store.export import export as write

    for path in write(results, Path(run_id).name, out, formats):
        click.echo(path)
    note_looks(runs, [Path(run_id).name], "export")


def _say(what: Any, as_json: bool = False) -> None:
    """Print plain values as JSON, or lines of text."""
    click.echo(json.dumps(what, indent=1, default=str) if as_json else "\n".join(what))
