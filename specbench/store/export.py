"""The tables of one run as files for other tools.

The index stays read-only and sealed, so that the files are written here and not by DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from specbench.errors import StoreError
from specbench.store.present import csv_line
from specbench.store.store import opened, rows

Rows = list[tuple[Any, ...]]
Take = Callable[[Rows], None]
ROWS_AT_ONCE = 10_000
_OF_A_RUN = "from {table} t join experiments e on e.run_id = t.run_id"
_OF_A_DEPLOYMENT = (
    "from {table} t join deployments d on d.deployment_id = t.deployment_id "
    "join experiments e on e.run_id = d.run_id"
)
_OF_A_CELL = (
    "from {table} t join cells c on c.cell_id = t.cell_id "
    "join deployments d on d.deployment_id = c.deployment_id "
    "join experiments e on e.run_id = d.run_id"
)
TABLES = {
    "experiments": _OF_A_RUN,
    "deployments": _OF_A_RUN,
    "cells": _OF_A_DEPLOYMENT,
    "requests": _OF_A_CELL,
    "verdicts": _OF_A_DEPLOYMENT,
    "effects": f"{_OF_A_RUN} left join arm_correctness a on a.run_id = t.run_id and a.arm = t.arm",
    "repeats": _OF_A_RUN,
    "decisions": _OF_A_RUN,
    "decision_repeats": _OF_A_RUN,
    "aa_validity": _OF_A_RUN,
    "traffic_mix": _OF_A_RUN,
    "drift": _OF_A_RUN,
    "nodes": _OF_A_RUN,
    "looks": _OF_A_RUN,
    "differences": _OF_A_RUN,
    "cell_differences": _OF_A_RUN,
    "anomalies": _OF_A_RUN,
    "correctness": _OF_A_RUN,
    "arm_correctness": _OF_A_RUN,
    "correctness_controls": _OF_A_RUN,
    "divergences": _OF_A_RUN,
    "facts": _OF_A_DEPLOYMENT,
    "warnings": _OF_A_DEPLOYMENT,
}
"""How each exported table belongs to a run."""
_TYPES = {
    "BOOLEAN": pa.bool_(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
}
"""DuckDB's types of the index; every other one is text."""


def export(results: Path, run_id: str, out: Path, formats: Sequence[str]) -> list[Path]:
    """Write every table of a run as `<table>.<format>`, and give the files.

    Each row says whether its numbers come from a cost model (`simulated`) or a trial (`rehearsal`).

    Raises:
        StoreError: There is no such run, or the folder cannot be written.
    """
    with opened(results) as connection:
        known = [row["run_id"] for row in rows(connection, "select run_id from experiments")]
        if run_id not in known:
            names = ", ".join(known) or "none"
            raise StoreError(f"no run {run_id!r} in the index", f"known: {names}")
        try:
            out.mkdir(parents=True, exist_ok=True)
            return [
                path for table in TABLES for path in _write(connection, table, run_id, out, formats)
            ]
        except OSError as error:
            raise StoreError(f"cannot write to {out}: {error.strerror or error}") from error


def _write(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    run_id: str,
    out: Path,
    formats: Sequence[str],
) -> list[Path]:
    """Write one table, under temporary names until it is whole."""
    columns = "t.*" if table == "experiments" else "t.*, e.simulated, e.rehearsal"
    if table == "effects":
        columns += ", a.correctness, a.explanation, a.caveats, a.barred"
    owned = TABLES[table].format(table=table)
    sql = f"select {columns} {owned} where e.run_id = ? order by all"
    described = rows(connection, f"describe {sql}", [run_id])
    schema = pa.schema([(row["column_name"], _type(row["column_type"])) for row in described])
    drafts = {style: out / f".{table}.{style}.partial" for style in formats}
    with ExitStack() as stack:
        files = [
            stack.enter_context(WRITERS[style](draft, schema)) for style, draft in drafts.items()
        ]
        connection.execute(sql, [run_id])
        while found := connection.fetchmany(ROWS_AT_ONCE):
            for take in files:
                take(found)
    return [draft.replace(out / f"{table}.{style}") for style, draft in drafts.items()]


def _type(name: str) -> pa.DataType:
    """Give Arrow's type for one of DuckDB's."""
    if name.endswith("[]"):
        return pa.list_(_type(name.removesuffix("[]")))
    return _TYPES.get(name, pa.string())


@contextmanager
def _csv_file(path: Path, schema: pa.Schema) -> Iterator[Take]:
    with path.open("w", encoding="utf-8", newline="") as file:
        file.write(csv_line(schema.names))
        yield lambda found: file.writelines(map(csv_line, found))


@contextmanager
def _parquet_file(path: Path, schema: pa.Schema) -> Iterator[Take]:
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:

        def take(found: Rows) -> None:
            columns = zip(*found, strict=True)
            arrays = [
                pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)
            ]
            writer.write_batch(pa.record_batch(arrays, schema=schema))

        yield take


WRITERS: dict[str, Callable[[Path, pa.Schema], AbstractContextManager[Take]]] = {
    "csv": _csv_file,
    "parquet": _parquet_file,
}
"""How each format is written."""
