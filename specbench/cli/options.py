"""Options and steps that several commands share. Heavy imports wait inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

    from specbench.experiment.read import ReadExperiment
    from specbench.plan import Plan
    from specbench.plugins import Methods

Command = TypeVar("Command", bound=Callable[..., Any])


def runs_option(command: Command) -> Command:
    """Add --runs to a command."""
    return click.option(
        "--runs",
        type=click.Path(path_type=Path, file_okay=False),
        default=Path("runs"),
        show_default=True,
        help="Folder of raw runs.",
    )(command)


def results_option(command: Command) -> Command:
    """Add --results to a command."""
    return click.option(
        "--results",
        type=click.Path(path_type=Path, dir_okay=False),
        default=Path("results.duckdb"),
        show_default=True,
        help="The DuckDB index.",
    )(command)


def launch_unservable_option(command: Command) -> Command:
    """Add --launch-unservable to a command."""
    return click.option(
        "--launch-unservable",
        is_flag=True,
        help="Launch the arms too that the engine's version is known to refuse.",
    )(command)


def spec_argument(command: Command) -> Command:
    """Add SPEC to a command."""
    return click.argument("spec", type=click.Path(path_type=Path))(command)


def console_for_people(*, quiet: bool = False) -> Console:
    """Give the console that people read."""
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True, quiet=quiet)


def installed_methods() -> Methods:
    """Load the method plugins."""
    from specbench.plugins import load_methods

    return load_methods()


def read_spec(spec: Path, methods: Methods) -> ReadExperiment:
    """Read and check an experiment."""
    from specbench.experiment.read import read_experiment

    return read_experiment(spec, {name: loaded.method for name, loaded in methods.items()})


def make_plan(
    read: ReadExperiment,
    methods: Methods,
    blocks: int | None = None,
    *,
    launch_unservable: bool = False,
    here: bool = True,
) -> Plan:
    """Plan an experiment for the engine version that its interpreter has, where `here` counts."""
    from specbench.engines.known import ENGINES
    from specbench.observe.provenance import engine_version
    from specbench.plan import plan as make

    experiment = read.experiment
    names = ENGINES[experiment.target.engine].distributions
    python, first = experiment.launcher.python, experiment.target.env.get("PYTHONPATH", "")
    return make(
        read,
        {name: loaded.method for name, loaded in methods.items()},
        blocks=blocks,
        engine_version=engine_version(python, names, first) if here else None,
        launch_unservable=launch_unservable,
    )


def write_reports(
    results: Path, run_id: str | None, out: Path, formats: tuple[str, ...]
) -> list[Path]:
    """Write the report of a run, of the newest when none is named."""
    from specbench.report.page import write_report

    return write_report(results, run_id, out, formats)


def build_index(runs: Path, results: Path) -> int:
    """Build the index anew, tell what had to be left out, and give the number of runs in it."""
    from specbench.store.ingest import ingest

    found = ingest(runs, results)
    for line in found.skipped:
        click.echo(f"warning: {line}", err=True)
    return found.runs


def note_looks(runs: Path, run_ids: Iterable[str], made_by: str) -> None:
    """Note in the folders of runs, as far as they are there, that results are shown."""
    from specbench.artifacts import RunFolder
    from specbench.looks import note_look

    for run_id in run_ids:
        note_look(RunFolder(runs / run_id), made_by)
