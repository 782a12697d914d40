"""Commands that judge, plan and run an experiment."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specbench.cli.options import (
    build_index,
    console_for_people,
    installed_methods,
    launch_unservable_option,
    make_plan,
    note_looks,
    read_spec,
    results_option,
    runs_option,
    spec_argument,
    write_reports,
)

if TYPE_CHECKING:
    from rich.console import Console

    from specbench.artifacts import RunFolder
    from specbench.campaign import Ending
    from specbench.experiment.read import ReadExperiment
    from specbench.plan import Plan
    from specbench.plugins import Methods

NO_BLOCK_IN_SERVICE = 4
GATE_FAILED = 7


@click.command()
@click.argument("spec", metavar="SPEC_OR_RUN", type=click.Path(path_type=Path))
@runs_option
@results_option
@click.option("--blocks", type=click.IntRange(min=1), help="Blocks, instead of design.blocks.")
@click.option("--again", is_flag=True, help="Start a sibling instead of going on.")
@click.option("--for", "duration", help="Start nothing that cannot end in 90s, 9m or 1h30m.")
@click.option("--only", "arm", metavar="ARM", help="Rehearse one arm: kept apart, never pooled.")
@click.option(
    "--dry-cells",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Cells of a rehearsal.",
)
@launch_unservable_option
@click.option("--uncertified", is_flag=True, help="Go on where the client's certificate fails.")
@click.option("--raw-only", is_flag=True, help="No index and no report; `ingest` makes them later.")
@click.option(
    "--reports",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("reports"),
    show_default=True,
    help="Folder of the report.",
)
@click.option("--strict", is_flag=True, help="Exit 7 on a failed gate or deployment.")
@click.option("--quiet", is_flag=True, help="Say nothing but what went wrong.")
def run(spec: Path, runs: Path, results: Path, **options: Any) -> None:
    """Launch, audit and measure everything in SPEC, then index it and write the report.

    A run that was interrupted continues after its last whole cell, with the same command or with
    the folder of the run in place of SPEC.
    """
    from specbench.experiment.read import require_here
    from specbench.planned_cell import most_streams
    from specbench.traffic.limits import require_machine

    until = _deadline(options["duration"])
    console = console_for_people(quiet=options["quiet"])
    methods = installed_methods()
    written, folder = _spec_of(spec)
    read = read_spec(written, methods)
    require_here(read)
    require_machine(most_streams(read))
    if not options["raw_only"]:
        _require_places(results, options["reports"])
    folder = folder or _folder(read, runs, again=options["again"], rehearsal=options["arm"])
    _same_experiment(read, folder)
    ending = _walk(read, methods, folder, options, until, console)
    if ending.signal is not None:
        click.echo(f"stopped: everything whole is kept; `specbench run {folder}` goes on", err=True)
        sys.exit(128 + ending.signal)
    if not ending.done:
        console.print(f"the time is up: `specbench run {folder}` goes on")
    if options["raw_only"]:
        console.print(f"evidence: {folder}")
        return
    note_looks(folder.parent, [folder.name], "run")
    with console.status("indexing"):
        build_index(folder.parent, results)
    page = write_reports(results, folder.name, options["reports"], ("html",))[0]
    console.print(f"evidence: {folder}\nindex:    {results}\nreport:   {page}")
    if ending.done:
        strict = options["strict"] or bool(options["arm"])
        _exit_by_outcome(results, folder.name, strict=strict, compared=not options["arm"])


@click.command()
@spec_argument
@click.option("--here", is_flag=True, help="Judge this machine too: variables, interpreter.")
def check(spec: Path, here: bool) -> None:
    """Check SPEC and its workloads. Nothing is started."""
    from specbench.experiment.read import require_here
    from specbench.plan_text import unservable_lines

    methods = installed_methods()
    read = read_spec(spec, methods)
    if here:
        require_here(read)
    for name in read.unset:
        click.echo(f"note: {name} is not set here")
    for line in unservable_lines(make_plan(read, methods, here=here)):
        click.echo(f"note: {line}")
    prompts = sum(len(workload.prompts) for workload in read.workloads)
    click.echo(f"{spec}: {len(read.experiment.arms)} arms, {prompts} prompts, no problem found")


@click.command()
@spec_argument
@click.option("--blocks", type=click.IntRange(min=1), help="Blocks, instead of design.blocks.")
@launch_unservable_option
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def plan(spec: Path, blocks: int | None, launch_unservable: bool, as_json: bool) -> None:
    """Show what `run` would do: commands, order, cells, time. Starts and writes nothing."""
    methods = installed_methods()
    read = read_spec(spec, methods)
    planned = make_plan(read, methods, blocks, launch_unservable=launch_unservable)
    if as_json:
        from specbench.campaign import plan_facts

        click.echo(json.dumps(plan_facts(planned), indent=1, default=str))
        return
    from specbench.plan_text import plan_text

    click.echo(plan_text(planned))


def _deadline(duration: str | None) -> float | None:
    import time

    from specbench.pace import parse_duration_s

    try:
        return None if duration is None else time.monotonic() + parse_duration_s(duration)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--for") from error


def _require_places(results: Path, reports: Path) -> None:
    """Find out before anything is measured whether index and report can be written."""
    from specbench.store.store import require_replaceable

    require_replaceable(results)
    reports.mkdir(parents=True, exist_ok=True)


def _spec_of(spec: Path) -> tuple[Path, Path | None]:
    """Give the document to read, and the run folder when one was named."""
    from specbench.whole_files import read_json

    if (spec / "plan.json").exists():
        return Path(read_json(spec / "plan.json")["spec"]), spec.absolute()
    return spec, None


def _folder(read: ReadExperiment, runs: Path, *, again: bool, rehearsal: str | None) -> Path:
    from specbench.artifacts import run_path
    from specbench.experiment.identity import run_digest

    name = f"{read.experiment.name}-{run_digest(read)}"
    if rehearsal:
        return run_path(runs, f"{name}-rehearsal", again=True)
    return run_path(runs, name, again=again)


def _same_experiment(read: ReadExperiment, folder: Path) -> None:
    """Refuse to go on with a run whose document or workloads have become other ones."""
    from specbench.errors import StoreError
    from specbench.experiment.identity import changed_parts, resolve
    from specbench.whole_files import read_json

    if not (folder / "plan.json").exists():
        return
    changed = changed_parts(read_json(folder / "plan.json")["experiment"], resolve(read))
    if changed:
        raise StoreError(
            f"{read.path} has changed since {folder.name} was begun: {', '.join(changed)}",
            f"put it back, or start a run of its own: specbench run {read.path}",
        )


def _walk(
    read: ReadExperiment,
    methods: Methods,
    folder: Path,
    options: dict[str, Any],
    until: float | None,
    console: Console,
) -> Ending:
    """Walk the plan in its run folder, and tell how that ended."""
    import anyio

    from specbench import campaign
    from specbench.artifacts import RunFolder, opened_run
    from specbench.plan import estimate, rehearsal
    from specbench.plan_text import unservable_lines
    from specbench.progress import Progress
    from specbench.stopping import Stopping
    from specbench.traffic.event_loop import event_loop_options
    from specbench.units import duration_text

    with opened_run(folder) as opened:
        spoiled = campaign.spoiled_blocks(opened)
        asked = options["blocks"] or read.experiment.design.blocks
        plan = make_plan(
            read,
            methods,
            asked + len(spoiled),
            launch_unservable=options["launch_unservable"],
        )
        plan = rehearsal(plan, options["arm"], options["dry_cells"]) if options["arm"] else plan
        console.print(
            f"{read.experiment.name}: {len(plan.deployments)} deployments of "
            f"{len(plan.launched())} arms, about {duration_text(estimate(plan).seconds)}"
        )
        for line in unservable_lines(plan):
            console.print(f"note: {line}", markup=False)
        if spoiled:
            shown = ", ".join(map(str, sorted(spoiled)))
            console.print(f"block {shown} has no baseline: as many whole blocks are appended")
        clean = RunFolder(opened.path, campaign.secrets_of(plan))
        campaign.prepare(plan, clean)
        left = len(campaign.left_to_do(plan, clean, spoiled))
        if left < len(plan.deployments):
            console.print(f"{left} of them are left to do" if left else "nothing is left to do")
        if left:
            _certify(plan, clean, console, uncertified=options["uncertified"])
        progress = Progress(console, left)
        stopping = Stopping(lambda said: click.echo(said, err=True))
        steps = (progress.listen, progress.on_row, stopping, spoiled, until)
        with progress.shown():
            return anyio.run(
                campaign.walk, plan, clean, *steps, backend_options=event_loop_options()
            )


def _certify(planned: Plan, folder: RunFolder, console: Console, *, uncertified: bool) -> None:
    """Store the client's certificate for the largest load of a plan with the run.

    Raises:
        MachineError: It fails, numbers would be about a real server, and nobody said to go on.
    """
    from specbench import certifying
    from specbench.errors import MachineError
    from specbench.planned_cell import largest_load

    experiment = planned.read.experiment
    streams, events_per_s = largest_load(planned.read)
    made = certifying.certified(streams, events_per_s, experiment.gates, experiment.load.processes)
    folder.write_certificate(made)
    failed = certifying.failures(made, experiment.gates)
    load = f"{streams} streams at {events_per_s:,.0f} events/s"
    if not failed:
        console.print(f"the client is certified for {load}")
        return
    why = "; ".join(f"{v.gate}: {v.observed}, required {v.required}" for v in failed)
    if not (uncertified or planned.engine.simulated):
        raise MachineError(
            f"the client fails its certificate for {load}: {why}",
            "quiet the machine, raise load.processes or the gates, or go on with --uncertified",
        )
    console.print(f"note: the client is not certified for {load}: {why}", markup=False)


def _exit_by_outcome(results: Path, run_id: str, *, strict: bool, compared: bool) -> None:
    """Leave with 4 when no block can be compared, with 7 when --strict finds a failure."""
    from specbench.store.outcome import failures, has_comparable_block
    from specbench.store.store import opened

    with opened(results) as connection:
        if compared and not has_comparable_block(connection, run_id):
            click.echo("no block has both its baseline and another arm in service", err=True)
            sys.exit(NO_BLOCK_IN_SERVICE)
        if strict and (found := failures(connection, run_id)):
            click.echo("\n".join(found), err=True)
            sys.exit(GATE_FAILED)
