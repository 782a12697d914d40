"""Commands over the index: build it, ask it, report from it."""

from __future__ import annotations

from pathlib import Path

import click

from specbench.cli.options import (
    build_index,
    note_looks,
    results_option,
    runs_option,
    write_reports,
)


@click.command()
@runs_option
@results_option
def ingest(runs: Path, results: Path) -> None:
    """Build the DuckDB index anew from the raw runs, judging everything again."""
    count = build_index(runs, results)
    click.echo(f"{results}: {count} run{'s' if count != 1 else ''}")


@click.command()
@click.argument("sql")
@runs_option
@results_option
@click.option(
    "--format",
    "style",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="How rows are shown.",
)
def query(sql: str, runs: Path, results: Path, style: str) -> None:
    """Ask the index a question in SQL. Read-only; docs/sql.md has ready ones."""
    from specbench.store.present import present
    from specbench.store.store import opened, rows

    with opened(results) as connection:
        click.echo(present(rows(connection, sql), style), nl=False)
        known = rows(connection, "select run_id from experiments")
    note_looks(runs, [row["run_id"] for row in known], "query")


@click.command()
@click.argument("run_id", required=False)
@runs_option
@results_option
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("reports"),
    show_default=True,
    help="Folder of the report.",
)
@click.option("--format", "formats", default="html", show_default=True, help="html,png,svg")
@click.option("--json", "as_json", is_flag=True, help="Print its numbers for machines instead.")
def report(
    run_id: str | None,
    runs: Path,
    results: Path,
    out: Path,
    formats: str,
    as_json: bool,
) -> None:
    """Write the report of RUN_ID (the newest run when left out)."""
    from specbench.report.content import newest, read_content
    from specbench.store.store import opened

    with opened(results) as connection:
        chosen = Path(run_id).name if run_id else newest(connection)
        content = read_content(connection, chosen) if as_json else None
    if content is not None:
        import json

        from specbench.report.plain import plain

        click.echo(json.dumps(plain(content), indent=1, default=str))
    else:
        for path in write_reports(results, chosen, out, tuple(formats.split(","))):
            click.echo(path)
    note_looks(runs, [chosen], "report")
