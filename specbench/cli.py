"""Arguments in, words and exit codes out. Heavy imports wait inside the commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from rich.console import Console

    from specbench.experiment.read import ReadExperiment
    from specbench.plan import Plan
    from specbench.plugins import Methods

INTERRUPTED = 130
NO_BLOCK_IN_SERVICE = 4
GATE_FAILED = 7

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


def spec_argument(command: Command) -> Command:
    """Add SPEC to a command."""
    return click.argument("spec", type=click.Path(path_type=Path))(command)


def _show_version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        import specbench

        click.echo(f"specbench {specbench.__version__}")
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Decide with evidence whether to switch speculative decoding on.

    Write one experiment in YAML, then: specbench run specs/x.yaml
    """


@cli.command()
@spec_argument
@runs_option
@results_option
@click.option("--blocks", type=click.IntRange(min=1), help="Blocks, instead of design.blocks.")
@click.option(
    "--reports",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("reports"),
    show_default=True,
    help="Folder of the report.",
)
@click.option("--strict", is_flag=True, help="Exit 7 on a failed gate or deployment.")
def run(
    spec: Path, runs: Path, results: Path, blocks: int | None, reports: Path, strict: bool
) -> None:
    """Launch, audit and measure everything in SPEC, then index it and write the report.

    A run that was interrupted continues after its last whole cell.
    """
    from specbench.experiment.read import require_here
    from specbench.plan import estimate
    from specbench.traffic.limits import require_machine
    from specbench.units import duration_text

    console = _console()
    methods = _methods()
    read = _read(spec, methods)
    require_here(read)
    require_machine(max(read.experiment.load.closed.concurrency))
    planned = _plan(read, methods, blocks)
    guess = estimate(planned)
    console.print(
        f"{read.experiment.name}: {len(planned.deployments)} deployments of "
        f"{len(planned.arms)} arms, about {duration_text(guess.seconds)}"
    )
    folder = _walk(planned, runs, console)
    _ingest(runs, results, console)
    page = _write_reports(results, folder.name, reports, ("html",))[0]
    console.print(f"evidence: {folder}\nindex:    {results}\nreport:   {page}")
    _exit_by_outcome(results, folder.name, strict=strict)


@cli.command()
@spec_argument
@click.option("--here", is_flag=True, help="Judge this machine too: variables, interpreter.")
def check(spec: Path, here: bool) -> None:
    """Check SPEC and its workloads. Nothing is started."""
    from specbench.experiment.read import require_here

    read = _read(spec, _methods())
    if here:
        require_here(read)
    for name in read.unset:
        click.echo(f"note: {name} is not set here")
    prompts = sum(len(workload.prompts) for workload in read.workloads)
    click.echo(f"{spec}: {len(read.experiment.arms)} arms, {prompts} prompts, no problem found")


@cli.command()
@spec_argument
@click.option("--blocks", type=click.IntRange(min=1), help="Blocks, instead of design.blocks.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def plan(spec: Path, blocks: int | None, as_json: bool) -> None:
    """Show what `run` would do: commands, order, cells, time. Starts and writes nothing."""
    methods = _methods()
    planned = _plan(_read(spec, methods), methods, blocks)
    if as_json:
        from specbench.campaign import plan_facts

        click.echo(json.dumps(plan_facts(planned), indent=1, default=str))
        return
    from specbench.plan_text import plan_text

    click.echo(plan_text(planned))


@cli.command("schema")
@click.option("--workload", is_flag=True, help="Of a workload's line instead.")
def schema_command(workload: bool) -> None:
    """Print the JSON Schema of an experiment, with the options of every installed method."""
    from specbench.experiment.schema import experiment_schema, workload_schema

    methods = {name: loaded.method for name, loaded in _methods().items()}
    schema = workload_schema() if workload else experiment_schema(methods)
    click.echo(json.dumps(schema, indent=2))


@cli.command()
def methods() -> None:
    """List the installed methods, where each comes from, and its options."""
    import attrs

    for name, loaded in _methods().items():
        options = ", ".join(field.name for field in attrs.fields(loaded.method.options)) or "-"
        click.echo(f"{name:<14} {loaded.distribution} {loaded.version:<8} {options}")


@cli.command()
@runs_option
@results_option
def ingest(runs: Path, results: Path) -> None:
    """Build the DuckDB index anew from the raw runs, judging everything again."""
    from specbench.store.ingest import ingest as build

    count = build(runs, results)
    click.echo(f"{results}: {count} run{'s' if count != 1 else ''}")


@cli.command()
@click.argument("sql")
@results_option
@click.option(
    "--format",
    "style",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="How rows are shown.",
)
def query(sql: str, results: Path, style: str) -> None:
    """Ask the index a question in SQL. Read-only; docs/sql.md has ready ones."""
    from specbench.store.present import present
    from specbench.store.store import opened, rows

    with opened(results) as connection:
        click.echo(present(rows(connection, sql), style), nl=False)


@cli.command()
@click.argument("run_id", required=False)
@results_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("reports"),
    show_default=True,
    help="Folder of the report.",
)
@click.option("--format", "formats", default="html", show_default=True, help="html,png,svg")
def report(run_id: str | None, results: Path, out: Path, formats: str) -> None:
    """Write the report of RUN_ID (the newest run when left out)."""
    for path in _write_reports(results, run_id, out, tuple(formats.split(","))):
        click.echo(path)


@cli.group()
def workload() -> None:
    """Prompt files."""


@workload.command()
@click.argument("file", type=click.Path(path_type=Path))
def validate(file: Path) -> None:
    """Check every line of FILE and print its digest."""
    from collections import Counter

    from specbench.workloads.read import read_workload

    content = read_workload(file)
    for stratum, count in Counter(prompt.stratum for prompt in content.prompts).items():
        click.echo(f"{stratum:<20} {count} prompts")
    click.echo(f"sha256 {content.sha256}")


def main() -> None:
    """Run the command line. The only place that turns an error into an exit code."""
    from specbench.errors import SpecbenchError

    try:
        cli(standalone_mode=False)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted: everything whole is kept; run the same command to go on", err=True)
        sys.exit(INTERRUPTED)
    except SpecbenchError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)


def _console() -> Console:
    from rich.console import Console

    return Console(stderr=False, highlight=False, soft_wrap=True)


def _methods() -> Methods:
    from specbench.plugins import load_methods

    return load_methods()


def _read(spec: Path, methods: Methods) -> ReadExperiment:
    from specbench.experiment.read import read_experiment

    return read_experiment(spec, {name: loaded.method for name, loaded in methods.items()})


def _plan(read: ReadExperiment, methods: Methods, blocks: int | None) -> Plan:
    from specbench.engines import ENGINES
    from specbench.observe.provenance import engine_version
    from specbench.plan import plan as make

    experiment = read.experiment
    engine = ENGINES[experiment.target.engine]
    return make(
        read,
        {name: loaded.method for name, loaded in methods.items()},
        blocks=blocks,
        engine_version=engine_version(experiment.launcher.python, engine.distributions),
    )


def _walk(planned: Plan, runs: Path, console: Console) -> Path:
    """Walk the plan in its run folder and give the folder."""
    import anyio

    from specbench import campaign
    from specbench.artifacts import opened_run, run_digest
    from specbench.progress import Progress

    name = planned.read.experiment.name
    with opened_run(runs, name, run_digest(planned.read)) as folder:
        campaign.prepare(planned, folder)
        progress = Progress(console, len(planned.deployments))
        with progress.shown():
            anyio.run(campaign.walk, planned, folder, progress.listen, progress.on_row)
        return folder.path


def _ingest(runs: Path, results: Path, console: Console) -> None:
    from specbench.store.ingest import ingest as build

    with console.status("indexing"):
        build(runs, results)


def _write_reports(
    results: Path, run_id: str | None, out: Path, formats: tuple[str, ...]
) -> list[Path]:
    from specbench.report.page import write_report

    return write_report(results, run_id, out, formats)


def _exit_by_outcome(results: Path, run_id: str, *, strict: bool) -> None:
    """Leave with 4 when no block can be compared, with 7 when --strict finds a failure."""
    from specbench.store.outcome import failures, has_comparable_block
    from specbench.store.store import opened

    with opened(results) as connection:
        if not has_comparable_block(connection, run_id):
            click.echo("no block has both its baseline and another arm in service", err=True)
            sys.exit(NO_BLOCK_IN_SERVICE)
        if strict and (found := failures(connection, run_id)):
            click.echo("\n".join(found), err=True)
            sys.exit(GATE_FAILED)
