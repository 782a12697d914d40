from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from specbench.errors import StoreError
from specbench.store.export import TABLES, export
from specbench.store.store import opened, rows
from tests.conftest import FinishedRun
from tests.store.test_ingest import MAY_BE_EMPTY

MARKS = ("simulated", "rehearsal")


@pytest.fixture(scope="session")
def exported(finished: FinishedRun, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("exported") / "deep" / "folder"
    paths = export(finished.results, finished.run.name, out, ("csv", "parquet"))
    assert sorted(paths) == sorted(out.iterdir())
    return out


def indexed(finished: FinishedRun, table: str) -> list[dict[str, object]]:
    with opened(finished.results) as connection:
        return rows(connection, f"select * from {table} order by all")


def test_every_table_is_a_file_of_each_format(exported: Path) -> None:
    assert {path.name for path in exported.iterdir()} == {
        f"{table}.{style}"
        for table in (
            "experiments",
            "deployments",
            "cells",
            "requests",
            "verdicts",
            "effects",
            "repeats",
            "decisions",
            "decision_repeats",
            "aa_validity",
            "traffic_mix",
            "drift",
            "nodes",
            "looks",
            "differences",
            "cell_differences",
            "anomalies",
            "correctness",
            "arm_correctness",
            "correctness_controls",
            "divergences",
            "facts",
            "warnings",
        )
        for style in ("csv", "parquet")
    }


@pytest.mark.parametrize("table", TABLES)
def test_parquet_holds_the_rows_of_the_index(
    table: str, exported: Path, finished: FinishedRun
) -> None:
    expected = indexed(finished, table)
    found = pq.read_table(exported / f"{table}.parquet").to_pylist()
    assert expected or table in MAY_BE_EMPTY
    assert [
        {key: row[key] for key in wanted} for row, wanted in zip(found, expected, strict=True)
    ] == expected


@pytest.mark.parametrize("table", TABLES)
def test_csv_holds_the_rows_of_the_index(table: str, exported: Path, finished: FinishedRun) -> None:
    expected = indexed(finished, table)
    with (exported / f"{table}.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    assert len(found) == len(expected)
    for row, wanted in zip(found, expected, strict=True):
        for name, value in wanted.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                assert float(row[name]) == value
            elif isinstance(value, list):
                assert json.loads(row[name]) == value
            elif isinstance(value, str):
                assert row[name].removeprefix("'") == value
            else:
                assert row[name] == ("" if value is None else str(value))


@pytest.mark.parametrize("table", TABLES)
def test_every_row_says_that_it_is_simulated_and_no_rehearsal(table: str, exported: Path) -> None:
    found = pq.read_table(exported / f"{table}.parquet", columns=list(MARKS)).to_pylist()
    assert {tuple(row[mark] for mark in MARKS) for row in found} <= {(True, False)}
    assert found or table in MAY_BE_EMPTY


def test_columns_keep_their_types_also_where_every_value_is_null(exported: Path) -> None:
    schema = pq.read_schema(exported / "cells.parquet")
    assert schema.field("concurrency").type == pa.int32()
    assert schema.field("ttft_p99_s").type == pa.float64()
    assert schema.field("rejected").type == pa.bool_()
    assert schema.field("accepted_per_position").type.value_type == pa.int64()
    assert pq.read_schema(exported / "deployments.parquet").field("reason").type == pa.string()


@pytest.fixture
def two_runs(finished: FinishedRun, tmp_path: Path) -> Path:
    """An index with another run beside the finished one, with one cell of one request."""
    results = Path(shutil.copy(finished.results, tmp_path / "r.duckdb"))
    with duckdb.connect(str(results)) as connection:
        for sql in (
            "insert into experiments by name select * replace ('other' as run_id, false as simulated) from experiments",
            "insert into deployments by name select * replace ('other' as run_id, 'other/d' as deployment_id, '=cmd()' as reason, -15 as exit_code) from deployments limit 1",
            "insert into cells by name select * replace ('other/d' as deployment_id, 'other/d/c' as cell_id) from cells limit 1",
            "insert into requests by name select * replace ('other/d/c' as cell_id) from requests limit 1",
        ):
            connection.execute(sql)
    return results


def test_only_rows_of_the_run_are_written(two_runs: Path, tmp_path: Path) -> None:
    export(two_runs, "other", tmp_path / "out", ("parquet",))
    counts = {
        table: pq.read_metadata(tmp_path / f"out/{table}.parquet").num_rows for table in TABLES
    }
    assert counts == {
        "experiments": 1,
        "deployments": 1,
        "cells": 1,
        "requests": 1,
        "verdicts": 0,
        "effects": 0,
        "repeats": 0,
        "decisions": 0,
        "decision_repeats": 0,
        "aa_validity": 0,
        "traffic_mix": 0,
        "drift": 0,
        "nodes": 0,
        "looks": 0,
        "differences": 0,
        "cell_differences": 0,
        "anomalies": 0,
        "correctness": 0,
        "arm_correctness": 0,
        "correctness_controls": 0,
        "divergences": 0,
        "facts": 0,
        "warnings": 0,
    }


def test_an_empty_table_keeps_its_columns(two_runs: Path, tmp_path: Path) -> None:
    export(two_runs, "other", tmp_path, ("csv", "parquet"))
    header = "deployment_id,fact,value,source,simulated,rehearsal"
    assert (tmp_path / "facts.csv").read_text() == f"{header}\n"
    assert pq.read_schema(tmp_path / "facts.parquet").names == header.split(",")


def test_a_formula_in_a_text_is_not_run_by_a_spreadsheet(two_runs: Path, tmp_path: Path) -> None:
    export(two_runs, "other", tmp_path, ("csv", "parquet"))
    with (tmp_path / "deployments.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert row["reason"] == "'=cmd()"
    assert row["exit_code"] == "-15"
    assert pq.read_table(tmp_path / "deployments.parquet").to_pylist()[0]["reason"] == "=cmd()"


def test_exporting_again_replaces_the_files(finished: FinishedRun, tmp_path: Path) -> None:
    run = finished.run.name
    (tmp_path / "cells.csv").write_text("old")
    export(finished.results, run, tmp_path, ("csv",))
    first = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    export(finished.results, run, tmp_path, ("csv",))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == first
    assert first["cells.csv"].startswith(b"cell_id,")


def test_a_run_that_is_not_indexed_is_refused_and_nothing_written(
    finished: FinishedRun, tmp_path: Path
) -> None:
    with pytest.raises(StoreError, match="no run 'x' in the index") as found:
        export(finished.results, "x", tmp_path / "out", ("csv",))
    assert found.value.hint == f"known: {finished.run.name}"
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_a_store_error(
    finished: FinishedRun, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot write to"):
        export(finished.results, finished.run.name, tmp_path / "file", ("csv",))
