from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

from specbench.artifacts import RunFolder
from specbench.errors import StoreError
from specbench.store.ingest import ingest
from specbench.store.outcome import failures, has_comparable_block
from specbench.store.store import opened, rows
from specbench.whole_files import read_json, write_json
from tests.conftest import ROOT, FinishedRun

TABLES = (
    "experiments",
    "deployments",
    "facts",
    "cells",
    "requests",
    "counters",
    "captures",
    "correctness",
    "arm_correctness",
    "correctness_controls",
    "divergences",
    "verdicts",
    "differences",
    "cell_differences",
    "anomalies",
    "warnings",
    "sampled_outputs",
    "effects",
    "repeats",
    "step_costs",
    "break_evens",
    "correlations",
    "decisions",
    "decision_repeats",
    "aa_validity",
    "traffic_mix",
    "drift",
    "nodes",
    "looks",
)

# Whether cells differ, and fit, depends on how this machine ran them; this engine warns of nothing,
# its requests are greedy, and without noise no output parts from another.
MAY_BE_EMPTY = (
    "cell_differences",
    "anomalies",
    "warnings",
    "sampled_outputs",
    "aa_validity",
    "traffic_mix",
    "divergences",
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
        noted = rows(
            connection,
            "select distinct interval_note, low from effects where metric = 'output_throughput'",
        )
    assert len(found) == 4
    assert all(row["estimate"] == pytest.approx(row["by_hand"]) for row in found)
    assert noted == [{"interval_note": "2 blocks: no interval under 3", "low": None}]


def test_ingesting_twice_gives_equal_rows(finished: FinishedRun, tmp_path: Path) -> None:
    both = [tmp_path / "a.duckdb", tmp_path / "b.duckdb"]
    for results in both:
        assert ingest(finished.folder / "runs", results).runs == 1
    read = []
    for results in both:
        with opened(results) as connection:
            read.append(
                {table: rows(connection, f"select * from {table} order by all") for table in TABLES}
            )
    assert read[0] == read[1]
    assert all(read[0][table] for table in TABLES if table not in MAY_BE_EMPTY)


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


def test_a_run_that_cannot_be_read_is_left_out_and_named(
    finished: FinishedRun, tmp_path: Path
) -> None:
    runs, results = tmp_path / "runs", tmp_path / "r.duckdb"
    shutil.copytree(finished.run, runs / finished.run.name)
    for name, missing in (("torn-1", None), ("lost-1", "provenance.json")):
        shutil.copytree(finished.run, runs / name)
        (runs / name / missing).unlink() if missing else (runs / name / "plan.json").write_text("{")
    found = ingest(runs, results)
    assert found.runs == 1
    assert [line.split(":")[0] for line in found.skipped] == [
        "lost-1 is left out",
        "torn-1 is left out",
    ]
    with opened(results) as connection:
        assert [row["run_id"] for row in rows(connection, "select run_id from experiments")] == [
            finished.run.name
        ]
        assert rows(connection, "select count(*) as n from cells") == [{"n": 12}]


@pytest.mark.parametrize(
    "name", ["requests.parquet", "metrics-after.txt", "cell.json", "outputs.parquet"]
)
def test_a_damaged_cell_is_left_out_and_told_and_the_others_stay(
    finished: FinishedRun, tmp_path: Path, name: str
) -> None:
    run = Path(shutil.copytree(finished.run, tmp_path / "runs" / finished.run.name))
    (cell,) = run.glob("b01-*-eagle-k3-a1/mixed-greedy-c4")
    (cell / name).write_bytes((cell / name).read_bytes()[:20])
    ingest(tmp_path / "runs", tmp_path / "r.duckdb")
    with opened(tmp_path / "r.duckdb") as connection:
        assert rows(connection, "select count(*) as n from cells") == [{"n": 11}]
        (told,) = rows(connection, "select observed, advice from verdicts where gate = 'evidence'")
        effects = rows(
            connection,
            "select concurrency, blocks from effects where arm = 'eagle-k3' and metric = 'output_throughput' order by 1",
        )
    assert told["observed"].startswith("mixed-greedy-c4: ")
    assert "specbench verify" in told["advice"]
    assert [(row["concurrency"], row["blocks"]) for row in effects] == [(1, 2), (4, 1)]


def test_a_kernel_that_was_compiled_inside_a_window_is_an_anomaly_of_that_cell(
    copied: Path,
) -> None:
    line = "Triton kernel JIT compilation during inference: {}. This causes a latency spike."
    (attempt,) = copied.glob("b01-*-eagle-k3-a1")
    closing = read_json(attempt / "deployment.json")
    began_s = int(closing["started_unix_s"])
    warned = [
        {"kind": "kernel_compiled_late", "meaning": "compiled late", "line": line.format(name)}
        for name in ("early", "late", "edge")
    ]
    write_json(
        attempt / "deployment.json",
        closing | {"ended_unix_s": began_s + 600.0, "warnings": warned},
    )

    def logged(name: str, after_s: int) -> str:
        stamp = time.strftime("%m-%d %H:%M:%S", time.localtime(began_s + after_s))
        return f"(EngineCore pid=1) WARNING {stamp} [jit_monitor.py:103] {line.format(name)}\n"

    # The windows as if they had taken 20 s each: from 100 s on, from 200 s and a half on.
    with (attempt / "launch.log").open("a") as log:
        log.write(logged("early", 50) + logged("late", 105) + logged("edge", 200))
        log.write(logged("early", 599))
    entries = [
        {**entry, "unix_s": began_s + after_s}
        for cell, start_s in (("mixed-greedy-c1", 100.0), ("mixed-greedy-c4", 200.5))
        for entry, after_s in (
            (_drive(attempt, cell, "start"), start_s),
            (_drive(attempt, cell, "end"), start_s + 20),
        )
    ]
    (copied / "journal.jsonl").write_text("".join(f"{json.dumps(item)}\n" for item in entries))
    ingest(copied.parent, copied.parent / "r.duckdb")
    with opened(copied.parent / "r.duckdb") as connection:
        told = rows(connection, "select * from warnings where deployment_id like '%eagle-k3-a1'")
        compiled = rows(
            connection,
            "select arm, concurrency, sentence from anomalies where kind = 'kernel_compiled_late' "
            "order by concurrency",
        )
    fell = {row["line"].split()[6]: row["fell"] for row in told if "JIT" in row["line"]}
    assert fell == {
        "early.": "between measured windows",
        "late.": "inside the window of mixed-greedy-c1",
        "edge.": "perhaps inside the window of mixed-greedy-c4",
    }
    assert [(row["arm"], row["concurrency"]) for row in compiled] == [
        ("eagle-k3", 1),
        ("eagle-k3", 4),
    ]
    assert "; inside this window, in block 1: " in compiled[0]["sentence"]
    assert "; perhaps inside this window" in compiled[1]["sentence"]


def _drive(attempt: Path, cell: str, state: str) -> dict[str, Any]:
    return {
        "unix_s": 0.0,
        "monotonic_ns": 0,
        "phase": "drive",
        "state": state,
        "deployment": attempt.name,
        "cell": cell,
        "detail": {},
    }


def test_a_measured_deployment_without_its_audit_is_undecided_not_good(
    finished: FinishedRun, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(finished.run, tmp_path / "runs" / finished.run.name))
    (audit,) = run.glob("b01-*-eagle-k3-a1/audit.json")
    audit.unlink()
    ingest(tmp_path / "runs", tmp_path / "r.duckdb")
    with opened(tmp_path / "r.duckdb") as connection:
        found = rows(
            connection,
            "select distinct outcome from verdicts join deployments using (deployment_id) where arm = 'eagle-k3' and block = 1 and gate like 'in_effect%'",
        )
    assert found == [{"outcome": "undecided"}]


def test_a_file_that_is_no_index_is_not_replaced(finished: FinishedRun, tmp_path: Path) -> None:
    precious = tmp_path / "spec.yaml"
    precious.write_text("name: precious")
    with pytest.raises(StoreError, match="is no index of specbench"):
        ingest(finished.folder / "runs", precious)
    assert precious.read_text() == "name: precious"
    results = tmp_path / "r.duckdb"
    ingest(finished.folder / "runs", results)
    before = results.read_bytes()
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match="no run below"):
        ingest(tmp_path / "empty", results)
    assert results.read_bytes() == before
    assert not list(tmp_path.glob(".*.partial"))


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
