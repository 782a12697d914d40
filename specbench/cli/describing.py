"""Commands that describe: methods and schemas."""

from __future__ import annotations

import json

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
