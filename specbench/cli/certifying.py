"""The command that shows whether this machine's client can drive a load."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from specbench.cli.options import installed_methods, read_spec

FAILED = 7


@click.command()
@click.argument("spec", required=False, type=click.Path(path_type=Path))
@click.option("--streams", type=click.IntRange(min=1), help="Requests in flight.")
@click.option("--events-per-s", type=click.FloatRange(min=1), help="Events a second, of all.")
@click.option("--processes", type=click.IntRange(min=1), help="Client processes.")
@click.option("--renew", is_flag=True, help="Make a new one, also where one is kept.")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def certify(
    spec: Path | None,
    streams: int | None,
    events_per_s: float | None,
    processes: int | None,
    renew: bool,
    as_json: bool,
) -> None:
    """Show that this machine's client is no bottleneck at the load of SPEC, or at a given one.

    Drives a local paced server for two seconds. Exits with 7 when a gate fails.
    """
    import cattrs

    from specbench.certifying import certified
    from specbench.experiment.model import Gates
    from specbench.judge.client import certificate_verdicts
    from specbench.planned_cell import EVENT_S, largest_load
    from specbench.traffic.limits import require_machine

    required, planned = Gates(), (64, 64 / EVENT_S)
    if spec is not None:
        read = read_spec(spec, installed_methods())
        required, planned = read.experiment.gates, largest_load(read)
        processes = processes or read.experiment.load.processes
    elif streams is not None:
        planned = (streams, streams / EVENT_S)
    wanted = streams or planned[0]
    require_machine(wanted)
    made = certified(wanted, events_per_s or planned[1], required, processes or 1, renew=renew)
    verdicts = certificate_verdicts(made, required)
    if as_json:
        said = {"certificate": cattrs.unstructure(made), "verdicts": cattrs.unstructure(verdicts)}
        click.echo(json.dumps(said, indent=1))
    else:
        ms = 1e3
        click.echo(f"{made.machine}\n{made.client.event_loop} loop, {made.clock} clock")
        click.echo(
            f"TTFT error p95 {made.ttft_error_p95_s * ms:.3f} ms, event error p50 "
            f"{made.event_error_p50_s * ms:.3f} ms, p99 {made.event_error_p99_s * ms:.3f} ms; "
            f"the local server was late by {made.server_late_p99_s * ms:.3f} ms (p99)"
        )
        for verdict in verdicts:
            click.echo(f"{verdict.outcome:<10} {verdict.gate:<17} {verdict.observed}")
            click.echo(f"{'':<28} required: {verdict.required}")
            if verdict.advice:
                click.echo(f"{'':<28} {verdict.advice}")
    if any(verdict.outcome == "fail" for verdict in verdicts):
        sys.exit(FAILED)
