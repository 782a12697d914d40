from __future__ import annotations

import re
import statistics
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from specbench.artifacts import RunFolder
from specbench.errors import StoreError
from specbench.store.ingest import ingest
from specbench.store.outcome import failures, has_comparable_block
from specbench.store.store import opened, rows
from tests.conftest import ROOT, FinishedRun

TABLES = (
    "experiments",
    "deployments",
    "facts",
    "cells",
    "requests",
    "counters",
    "captures",
    "verdicts",
    "differences",
    "effects",
    "repeats",
)


def counter(text: str, name: str, position: int | None = None) -> float:
    """Read one counter of an exposition by hand: the text after the last space of its line."""
    found = [
        float(line.rsplit(" ", 1)[1])
        for line in text.splitlines()
        if line.startswith(f"vllm:{name}_total{{")
        and (position is None or f'position="{position}"' in line)
    ]
    return sum(found)


def test_acceptance_in_the_index_equals_the_raw_counters_read_by_hand(
    finished: FinishedRun,
) -> None:
    seen = 0
    for attempt in RunFolder(finished.run).attempts():
        for name, cell in attempt.cells().items():
            before, after = cell.counters()
            with opened(finished.results) as connection:
                (row,) = rows(
                    connection,
                    "select * from cells where cell_id like ?",
                    [f"%/{attempt.path.name}/{name}"],
                )
            drafted = counter(after, "spec_decode_num_draft_tokens") - counter(
                before, "spec_decode_num_draft_tokens"
            )
            if not drafted:
                assert row["acceptance_rate"] is None
                continue
            accepted = counter(after, "spec_decode_num_accepted_tokens") - counter(
                before, "spec_decode_num_accepted_tokens"
            )
            drafts = counter(after, "spec_decode_num_drafts") - counter(
                before, "spec_decode_num_drafts"
            )
            assert row["acceptance_rate"] == accepted / drafted
            assert row["acceptance_length"] == pytest.approx(1 + accepted / drafts)
            per_pos = "spec_decode_num_accepted_tokens_per_pos"
            for position in range(3):
                there = counter(after, per_pos, position) - counter(before, per_pos, position)
                assert row["acceptance_by_position"][position] == there / drafts
            assert sum(row["acceptance_by_position"]) == pytest.approx(row["acceptance_length"] - 1)
            seen += 1
    assert seen == 8


def test_a_cells_numbers_agree_with_sql_over_its_requests(finished: FinishedRun) -> None:
    with opened(finished.results) as connection:
        found = rows(
            connection,
            "select c.tpot_p50_s, median(r.tpot_s) as tpot, c.ttft_p50_s, median(r.ttft_s) as ttft, "
            "c.output_tokens, sum(r.completion_tokens) as tokens from cells c "
            "join requests r using (cell_id) where r.status = 'ok' group by all",
        )
    assert len(found) == 12
    for row in found:
        assert row["tpot_p50_s"] == pytest.approx(row["tpot"])
        assert row["ttft_p50_s"] == pytest.approx(row["ttft"])
        assert row["output_tokens"] == row["tokens"]


def test_effects_are_the_geometric_means_of_cells_of_a_block(finished: FinishedRun) -> None:
    with opened(finished.results) as connection:
        found = rows(
            connection,
            "select e.estimate, exp(avg(ln(a.output_throughput / b.output_throughput))) as by_hand "
            "from effects e join runs a on a.arm = e.arm and a.concurrency = e.concurrency "
            "join runs b on b.role = 'baseline' and b.block = a.block and b.concurrency = a.concurrency "
            "where e.metric = 'output_throughput' group by e.arm, e.concurrency, e.estimate",
        )
        noted = rows(connection, "select distinct interval_note, low from effects")
    assert len(found) == 4
    assert all(row["estimate"] == pytest.approx(row["by_hand"]) for row in found)
    assert noted == [{"interval_note": "2 of 3 blocks: no interval", "low": None}]


def test_ingesting_twice_gives_equal_rows(finished: FinishedRun, tmp_path: Path) -> None:
    both = [tmp_path / "a.duckdb", tmp_path / "b.duckdb"]
    for results in both:
        assert ingest(finished.folder / "runs", results) == 1
    read = []
    for results in both:
        with opened(results) as connection:
            read.append(
                {table: rows(connection, f"select * from {table} order by all") for table in TABLES}
            )
    assert read[0] == read[1]
    assert all(read[0][table] for table in TABLES)


def test_every_table_and_view_has_a_comment(finished: FinishedRun) -> None:
    with opened(finished.results) as connection:
        tables = rows(connection, "select table_name as name, comment from duckdb_tables()")
        views = rows(
            connection, "select view_name as name, comment from duckdb_views() where not internal"
        )
    assert {row["name"] for row in tables} == {*TABLES, "layout"}
    assert [row["name"] for row in (*tables, *views) if not row["comment"]] == []


def test_the_walk_leaves_nothing_but_passes(finished: FinishedRun) -> None:
    run_id = finished.run.name
    with opened(finished.results) as connection:
        assert has_comparable_block(connection, run_id)
        assert failures(connection, run_id) == []
        gates = rows(connection, "select gate, count(*) as n from verdicts group by gate")
    assert {row["gate"] for row in gates} >= {
        "in_effect.method",
        "success_rate",
        "achieved_concurrency",
        "counters",
        "foreign_traffic",
        "acceptance_identities",
    }


def test_the_index_is_read_only_and_sealed(finished: FinishedRun) -> None:
    with opened(finished.results) as connection:
        for sql in (
            "delete from cells",
            "select * from read_csv('/etc/hostname')",
            "copy cells to 'x.csv'",
        ):
            with pytest.raises(StoreError):
                rows(connection, sql)


def test_an_index_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.duckdb").write_text("no database")
    for path in (tmp_path / "x.duckdb", tmp_path / "missing.duckdb"):
        with pytest.raises(StoreError), opened(path):
            pass


def test_an_index_of_a_newer_layout_is_refused_with_the_remedy(tmp_path: Path) -> None:
    results = tmp_path / "newer.duckdb"
    with duckdb.connect(str(results)) as connection:
        connection.execute("create table layout as select 99 as version")
    with pytest.raises(StoreError, match=r"has layout 99.*\n.*specbench ingest"), opened(results):
        pass


def test_an_index_that_another_process_writes_is_refused_in_words(tmp_path: Path) -> None:
    results = tmp_path / "held.duckdb"
    script = (
        "import duckdb, sys; held = duckdb.connect(sys.argv[1]); held.execute('create table layout as select 1 as version'); "
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, results],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match=r"cannot be opened: .*lock"), opened(results):
            pass
        holder.communicate("")


def test_a_raw_folder_of_another_layout_leaves_the_old_index_alone(
    finished: FinishedRun, tmp_path: Path
) -> None:
    results = tmp_path / "r.duckdb"
    ingest(finished.folder / "runs", results)
    before = results.read_bytes()
    broken = tmp_path / "runs" / "x-1"
    broken.mkdir(parents=True)
    (broken / "plan.json").write_text("{")
    with pytest.raises(StoreError, match=re.escape("plan.json")):
        ingest(tmp_path / "runs", results)
    assert results.read_bytes() == before
    assert not list(tmp_path.glob("*.partial"))


QUESTIONS = re.findall(r"```sql\n(.*?)```", (ROOT / "docs/sql.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("sql", QUESTIONS, ids=range(len(QUESTIONS)))
def test_every_documented_question_runs_and_answers(sql: str, finished: FinishedRun) -> None:
    with opened(finished.results) as connection:
        found = rows(connection, sql)
    empty_is_good = "no rows" in sql
    assert bool(found) != empty_is_good


def test_there_are_documented_questions() -> None:
    assert len(QUESTIONS) >= 8
    assert statistics.mean(len(sql) for sql in QUESTIONS) > 40
