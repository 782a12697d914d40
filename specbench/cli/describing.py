"""Commands that describe: methods, schemas, workloads."""

from __future__ import annotations

import json
from pathlib import Path

import click

from specbench.cli.options import installed_methods


@click.command("schema")
@click.option("--workload", is_flag=True, help="Of a workload's line instead.")
def schema_command(workload: bool) -> None:
    """Print the JSON Schema of an experiment, with the options of every installed method."""
    from specbench.experiment.schema import experiment_schema, workload_schema

    methods = {name: loaded.method for name, loaded in installed_methods().items()}
    schema = workload_schema() if workload else experiment_schema(methods)
    click.echo(json.dumps(schema, indent=2))


@click.command()
def methods() -> None:
    """List the installed methods, where each comes from, and its options."""
    import attrs

    for name, loaded in installed_methods().items():
        options = ", ".join(field.name for field in attrs.fields(loaded.method.options)) or "-"
        click.echo(f"{name:<14} {loaded.distribution} {loaded.version:<8} {options}")


@click.group()
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
