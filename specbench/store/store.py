"""Open the DuckDB index: whole rebuilds for writing, read-only and sealed for reading."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import duckdb

from specbench.errors import StoreError

LAYOUT = 4
MAGIC = b"DUCK"
"""Bytes 8 to 11 of every DuckDB file."""


@contextmanager
def rebuilt(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Give an empty index that replaces the old one when the block ends well.

    Raises:
        StoreError: The file cannot be written, or another process holds it.
    """
    require_replaceable(path)
    draft = path.with_name(f".{path.name}.{os.getpid()}.partial")
    draft.unlink(missing_ok=True)
    try:
        connection = duckdb.connect(str(draft))
    except duckdb.Error as error:
        raise StoreError(f"{draft} cannot be written: {_first_line(error)}") from error
    try:
        connection.execute(files("specbench.store").joinpath("schema.sql").read_text("utf-8"))
        yield connection
        connection.execute("checkpoint")
    except BaseException:
        connection.close()
        draft.unlink(missing_ok=True)
        raise
    connection.close()
    draft.replace(path)


def require_replaceable(path: Path) -> None:
    """Make the folder of an index, and refuse to replace what is no database.

    Raises:
        StoreError: The folder cannot be made, or another kind of file stands there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            return
        with path.open("rb") as file:
            head = file.read(12)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}") from error
    if head[8:] != MAGIC:
        raise StoreError(f"{path} is no index of specbench", "name another file with --results")


@contextmanager
def opened(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open an index read-only, with access to other files and networks off.

    Raises:
        StoreError: There is none, it is held by a writer, or its layout is another one.
    """
    if not path.exists():
        raise StoreError(f"{path} does not exist", "run an experiment, or `specbench ingest`")
    try:
        connection = duckdb.connect(
            str(path), read_only=True, config={"enable_external_access": "false"}
        )
    except duckdb.Error as error:
        raise StoreError(f"{path} cannot be opened: {_first_line(error)}") from error
    try:
        _check_layout(connection, path)
        yield connection
    finally:
        connection.close()


def rows(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: list[Any] | None = None
) -> list[dict[str, Any]]:
    """Give the rows of a query by column name.

    Raises:
        StoreError: The query is wrong; the message is DuckDB's.
    """
    try:
        cursor = connection.execute(sql, parameters or [])
        names = [column[0] for column in cursor.description or ()]
        return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    except duckdb.Error as error:
        raise StoreError(f"the query failed: {error}") from error


def insert(connection: duckdb.DuckDBPyConnection, table: str, values: list[dict[str, Any]]) -> None:
    """Insert rows by column name, through Arrow: executemany takes hundreds of times longer."""
    if not values:
        return
    import pyarrow as pa

    described = connection.execute(f'describe "{table}"').fetchall()
    columns = [name for name, *_ in described]
    batch = pa.table({name: pa.array([value.get(name) for value in values]) for name in columns})
    connection.register("batch", batch)
    casts = ", ".join(f'"{name}"::{kind}' for name, kind, *_ in described)
    connection.execute(f'insert into "{table}" select {casts} from batch')  # noqa: S608 - our own tables
    connection.unregister("batch")


def _check_layout(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    try:
        found = connection.execute("select version from layout").fetchone()
    except duckdb.Error:
        raise StoreError(f"{path} is no index of specbench") from None
    if found is None or found[0] != LAYOUT:
        raise StoreError(
            f"{path} has layout {found and found[0]}, this specbench reads {LAYOUT}",
            "build it again with `specbench ingest`; the raw folders hold everything",
        )


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
