from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from specbench.artifacts import RunFolder
from specbench.errors import StoreError
from specbench.explanations import FILE, explanation, record
from specbench.store.ingest import ingest
from specbench.store.outcome import failures
from specbench.store.store import opened, rows
from tests.conftest import FinishedRun

SYNTHETIC = "synthetic acceptance: tokens are accepted at random, so the output is wrong"


def read(run: FinishedRun, sql: str) -> list[dict[str, object]]:
    with opened(run.results) as connection:
        return rows(connection, sql)


def test_lossless_arms_pass_by_controls_of_the_baselines_two_deployments(
    finished: FinishedRun,
) -> None:
    found = read(finished, "select * from correctness order by arm")
    assert [(row["arm"], row["concurrency"], row["verdict"]) for row in found] == [
        ("eagle-k3", 2, "pass"),
        ("ngram-k3", 2, "pass"),
    ]
    for row in found:
        # Two blocks of two captures of six prompts; two baselines give a pair for each capture.
        assert (row["pairs"], row["outputs"], row["exact"]) == (4, 24, 24)
        assert (row["control_pairs"], row["control_outputs"]) == (2, 12)
        assert (row["prefix_fraction"], row["prefix_fraction_allowance"]) == (1.0, 0.95)
    kinds = read(
        finished,
        "select kind, control_arm, compared, pairs from correctness_controls "
        "where arm = 'ngram-k3' order by all",
    )
    assert [tuple(row.values()) for row in kinds] == [
        ("cross-deployment", "baseline", True, 2),
        ("cross-deployment", "ngram-k3", False, 2),
        ("within-deployment", "baseline", False, 2),
        ("within-deployment", "ngram-k3", False, 2),
    ]


def test_a_lossy_arm_is_blocked_and_synthetic_acceptance_is_marked(lossy: FinishedRun) -> None:
    found = read(lossy, "select arm, correctness, caveats, barred from arm_correctness order by 1")
    assert [tuple(row.values()) for row in found] == [
        ("baseline", "reference", [], ""),
        ("baseline-repeat", "reference", [], ""),
        (
            "eagle-k3",
            "blocked",
            [SYNTHETIC],
            f"blocked by the correctness gate; {SYNTHETIC}",
        ),
        ("ngram-k3", "blocked", [], "blocked by the correctness gate"),
    ]
    with opened(lossy.results) as connection:
        said = failures(connection, lossy.run.name)
    assert [line.partition(":")[2].split(":")[0] for line in said] == [" correctness failed"] * 2


def test_the_verdict_stands_in_every_row_of_speedups(lossy: FinishedRun) -> None:
    found = read(lossy, "select arm, correctness, barred from speedups order by arm")
    assert [(row["arm"], row["correctness"]) for row in found] == [
        ("baseline-repeat", "reference"),
        ("eagle-k3", "blocked"),
        ("ngram-k3", "blocked"),
    ]
    assert all(row["barred"] for row in found[1:])


def test_a_blocked_arms_divergences_lie_far_behind_and_near_ties_do_not(
    lossy: FinishedRun,
) -> None:
    found = read(lossy, "select * from divergences")
    far = [row for row in found if not row["explained"]]
    assert far
    for row in far:
        assert row["near_tie"] is False
        assert (row["behind_nats"] or row["beyond_nats"]) >= 0.5  # type: ignore[operator]
        assert row["reference"] != row["other"]


@pytest.fixture
def own_copy(lossy: FinishedRun, tmp_path: Path) -> RunFolder:
    shutil.copytree(lossy.run, tmp_path / "runs" / lossy.run.name)
    return RunFolder(tmp_path / "runs" / lossy.run.name)


def test_an_explanation_is_shown_and_is_no_pass(own_copy: RunFolder, tmp_path: Path) -> None:
    record(own_copy, "ngram-k3", None, "A first guess.")
    record(own_copy, "ngram-k3", 2, "The test swaps tokens on purpose.")
    record(own_copy, "ngram-k3", 8, "Another concurrency.")
    results = tmp_path / "r.duckdb"
    assert ingest(tmp_path / "runs", results).skipped == ()
    with opened(results) as connection:
        found = rows(
            connection, "select correctness, explanation, barred from speedups order by arm"
        )
    assert found[2] == {
        "correctness": "blocked",
        "explanation": "The test swaps tokens on purpose.",
        "barred": "blocked by the correctness gate",
    }


def test_a_file_that_holds_no_explanation_is_told_with_its_line(own_copy: RunFolder) -> None:
    record(own_copy, "a", None, "x")
    with (own_copy.path / FILE).open("a") as file:
        file.write("nonsense\n")
    with pytest.raises(StoreError, match=r"explanations\.jsonl:2: this is no explanation"):
        explanation(own_copy, "a", 1)


def test_a_torn_capture_leaves_the_run_out_and_says_where(
    own_copy: RunFolder, tmp_path: Path
) -> None:
    path = next(own_copy.path.glob("*ngram*/capture-2.jsonl"))
    path.write_text(path.read_text()[:-40])
    (said,) = ingest(tmp_path / "runs", tmp_path / "r.duckdb").skipped
    assert "capture-2.jsonl:6: this is no line of a capture" in said
