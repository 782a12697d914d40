"""Commands that judge, plan and run an experiment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from specbench.cli.options import (
    console as people,
)
from specbench.cli.options import (
    installed_methods,
    read_spec,
    results_option,
    runs_option,
    spec_argument,
    write_reports,
)
from specbench.cli.options import (
    planned as make_plan,
)

if TYPE_CHECKING:
    from rich.console import Console

    from specbench.plan import Plan

NO_BLOCK_IN_SERVICE = 4
GATE_FAILED = 7


@click.command()
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

    console = people()
    methods = installed_methods()
    read = read_spec(spec, methods)
    require_here(read)
    require_machine(max(read.experiment.load.closed.concurrency))
    planned = make_plan(read, methods, blocks)
    guess = estimate(planned)
    console.print(
        f"{read.experiment.name}: {len(planned.deployments)} deployments of "
        f"{len(planned.arms)} arms, about {duration_text(guess.seconds)}"
    )
    folder = _walk(planned, runs, console)
    _ingest(runs, results, console)
    page = write_reports(results, folder.name, reports, ("html",))[0]
    console.print(f"evidence: {folder}\nindex:    {results}\nreport:   {page}")
    _exit_by_outcome(results, folder.name, strict=strict)


@click.command()
@spec_argument
@click.option("--here", is_flag=True, help="Judge this machine too: variables, interpreter.")
def check(spec: Path, here: bool) -> None:
    """Check SPEC and its workloads. Nothing is started."""
    from specbench.experiment.read import require_here

    read = read_spec(spec, installed_methods())
    if here:
        require_here(read)
    for name in read.unset:
        click.echo(f"note: {name} is not set here")
    prompts = sum(len(workload.prompts) for workload in read.workloads)
    click.echo(f"{spec}: {len(read.experiment.arms)} arms, {prompts} prompts, no problem found")


@click.command()
@spec_argument
@click.option("--blocks", type=click.IntRange(min=1), help="Blocks, instead of design.blocks.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def plan(spec: Path, blocks: int | None, as_json: bool) -> None:
    """Show what `run` would do: commands, order, cells, time. Starts and writes nothing."""
    methods = installed_methods()
    planned = make_plan(read_spec(spec, methods), methods, blocks)
    if as_json:
        from specbench.campaign import plan_facts

        click.echo(json.dumps(plan_facts(planned), indent=1, default=str))
        return
    from specbench.plan_text import plan_text

    click.echo(plan_text(planned))


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
