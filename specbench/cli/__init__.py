"""Arguments in, words and exit codes out. Heavy imports wait inside the commands."""

from __future__ import annotations

import errno
import sys

import click

from specbench.cli import (
    asking,
    auditing,
    certifying,
    correctness,
    describing,
    inspecting,
    running,
    simulating,
    starting,
    workloads,
)

INTERRUPTED = 130
UNWRITABLE = (
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EACCES,
    errno.EPERM,
    errno.EFBIG,
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EEXIST,
    errno.ENAMETOOLONG,
)


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


for command in (
    starting.init,
    starting.doctor,
    certifying.certify,
    starting.completion,
    running.run,
    running.check,
    running.plan,
    simulating.simulate,
    inspecting.status,
    inspecting.runs_command,
    inspecting.show,
    inspecting.verify,
    auditing.audit,
    correctness.correctness,
    asking.ingest,
    asking.query,
    inspecting.export,
    asking.report,
    describing.methods,
    describing.schema_command,
    workloads.workload,
):
    cli.add_command(command)


def main() -> None:
    """Run the command line. The only place that turns an error into an exit code."""
    from specbench.errors import SpecbenchError, StoreError

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
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        where = error.filename or "the disk"
        click.echo(f"error: cannot write {where}: {error.strerror}", err=True)
        click.echo("  everything whole is kept; make room or rights, then run it again", err=True)
        sys.exit(StoreError.exit_code)
    except SpecbenchError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(error.exit_code)
