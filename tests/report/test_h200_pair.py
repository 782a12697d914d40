from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import pytest

from specbench.cli.options import build_index
from specbench.store.store import opened
from tests.conftest import ROOT, run_cli

PAIR = ROOT / "docs/examples/h200-pair"
PAGE = (PAIR / "README.md").read_text()
ARMS = ("baseline-repeat", "ngram-k3", "draft-k3", "eagle-k3")
LOADS = (1, 8, 32, 128)
RATIOS = ("output_throughput", "tpot_p50_s", "ttft_p50_s", "e2e_p50_s")
STEADY = """
with measured as (
    select block, arm, concurrency, steady_throughput as steady
    from cells join deployments using (deployment_id)
),
plain as (
    select block, concurrency, exp(avg(ln(steady))) as steady from measured
    where arm = 'baseline' or (arm = 'baseline-repeat' and ? <> 'baseline-repeat')
    group by all
)
select measured.steady / plain.steady from measured join plain using (block, concurrency)
where arm = ? and concurrency = ? order by block
"""
COMPARED = ("tpot_p50_ms", "output_throughput", "acceptance_rate")


@pytest.fixture(scope="module")
def runs(example: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of the run that the archive holds."""
    folder: Path = tmp_path_factory.mktemp("pair") / "runs"
    example.unpack(PAIR / "run.tar.xz", folder)
    return folder


@pytest.fixture(scope="module")
def results(runs: Path) -> Path:
    """Give the index of that run, judged anew."""
    path = runs.parent / "results.duckdb"
    build_index(runs, path)
    return path


@pytest.fixture
def index(results: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with opened(results) as connection:
        yield connection


def rows(index: duckdb.DuckDBPyConnection, asked: str, *values: object) -> list[Any]:
    return index.execute(asked, values).fetchall()


def test_what_the_report_of_the_h200_says_is_made_again_from_its_archive(
    example: ModuleType, runs: Path, results: Path
) -> None:
    (run,) = runs.iterdir()
    assert run_cli("verify", run).exit_code == 0
    assert example.numbers(results, run.name) == (PAIR / "numbers.json").read_text()


def test_the_page_says_the_ratios_of_both_blocks(index: duckdb.DuckDBPyConnection) -> None:
    for load in LOADS:
        for arm in ARMS:
            ((mean,),) = rows(
                index,
                "select estimate from effects where arm = ? and concurrency = ? and metric = ?",
                arm,
                load,
                "output_throughput",
            )
            said = [f"**{mean:.2f}**"]
            for metric in RATIOS:
                ratios = rows(
                    index,
                    "select ratio from repeats where arm = ? and concurrency = ? and metric = ? "
                    "order by block",
                    arm,
                    load,
                    metric,
                )
                said.append(", ".join(f"{ratio:.2f}" for (ratio,) in ratios))
            steady = ", ".join(f"{ratio:.2f}" for (ratio,) in rows(index, STEADY, arm, arm, load))
            said.insert(2, steady)
            assert f"| {load} | {arm} | {' | '.join(said)} |" in PAGE


def test_at_128_the_ends_of_the_window_decide_and_the_report_says_so(
    index: duckdb.DuckDBPyConnection,
) -> None:
    told = rows(index, "select distinct kind, arm, concurrency from anomalies order by arm")
    assert told == [("ends_of_the_window_decide", arm, 128) for arm in ("draft-k3", "eagle-k3")]


def test_kernels_of_the_h200_were_compiled_before_any_window(
    index: duckdb.DuckDBPyConnection,
) -> None:
    """The last was said at 00:27:41 in block 1, and the first window began at 00:28:01."""
    asked = "select fell, count(*) from warnings where kind = 'kernel_compiled_late' group by all"
    assert rows(index, asked) == [("between measured windows", 16)]
    others = "select distinct fell from warnings where kind <> 'kernel_compiled_late'"
    assert rows(index, others) == [(None,)]


def test_the_page_says_what_cells_measured(index: duckdb.DuckDBPyConnection) -> None:
    for load in LOADS:
        for arm in ("baseline", *ARMS[1:]):
            cells = rows(
                index,
                "select output_throughput, 1000 * tpot_p50_s, 1000 * ttft_p50_s, e2e_p50_s, "
                "e2e_p95_s, tokens_per_step from cells join deployments using (deployment_id) "
                "where arm = ? and concurrency = ? order by block",
                arm,
                load,
            )
            said = [
                ", ".join("-" if value is None else form.format(value) for value in column)
                for form, column in zip(
                    ("{:,.0f}", "{:.2f}", "{:,.0f}", "{:.2f}", "{:.2f}", "{:.2f}"),
                    zip(*cells, strict=True),
                    strict=True,
                )
            ]
            line = f"| {load} | {arm} | {' | '.join(said)} |".replace("-, -", "-")
            assert line in PAGE


def test_the_baseline_at_128_serves_in_waves_and_arms_do_not(
    index: duckdb.DuckDBPyConnection,
) -> None:
    """The page's reason not to read TPOT or TTFT alone at that load."""
    spreads = dict(
        rows(
            index,
            "select arm, max(spread) from (select arm, deployment_id, "
            "stddev(e2e_s) / avg(e2e_s) as spread from requests join cells using (cell_id) "
            "join deployments using (deployment_id) where concurrency = 128 group by all) "
            "group by arm",
        )
    )
    assert max(spreads["baseline"], spreads["baseline-repeat"]) < 0.02
    assert min(spreads[arm] for arm in ARMS[1:]) > 0.36


def test_the_page_says_what_servers_stated(index: duckdb.DuckDBPyConnection) -> None:
    for fact, title in (
        ("model_runner", "model runner"),
        ("kv_cache_tokens", "KV cache, tokens, block {}"),
        ("compiled_graphs", "compiled graphs, block 1"),
    ):
        for block in (1, 2) if "{}" in title else (1,):
            stated = dict(
                rows(
                    index,
                    "select arm, value from facts join deployments using (deployment_id) "
                    "where fact = ? and block = ?",
                    fact,
                    block,
                )
            )
            said = [stated[arm] for arm in ("baseline", *ARMS[1:])]
            if fact == "kv_cache_tokens":
                said = [f"{int(value):,}" for value in said]
            assert f"| {title.format(block)} | {' | '.join(said)} |" in PAGE


def test_the_page_says_the_verdicts_on_correctness(index: duckdb.DuckDBPyConnection) -> None:
    for arm in ARMS[1:]:
        judged = rows(
            index,
            "select verdict, exact, outputs, control_exact from correctness where arm = ? "
            "order by concurrency",
            arm,
        )
        (one, *_), (eight, *_) = judged
        (line,) = re.findall(rf"^\| {arm} \| (pass.*) \| (pass.*) \|$", PAGE, re.MULTILINE)
        for said, (verdict, exact, outputs, control) in zip(line, judged, strict=True):
            assert said.startswith(f"{verdict}, {exact} of {outputs}")
            assert control == (96 if said is line[0] else 91)
        assert (one, eight) == tuple(said.split(",")[0] for said in line)


def test_only_cells_slower_than_others_of_their_load_are_flagged(
    index: duckdb.DuckDBPyConnection,
) -> None:
    # All cells at 128 clock lower, near the power limit; EAGLE's lower than those beside them.
    flagged = rows(index, "select cell_id from verdicts where gate = 'sm_clock' order by 1")
    assert [cell.split("/", 1)[1] for (cell,) in flagged] == [
        "b01-05-eagle-k3-a1/code-greedy-c128",
        "b02-01-eagle-k3-a1/code-greedy-c128",
    ]


def test_the_page_says_what_the_cross_check_found() -> None:
    for arm, found in json.loads((PAIR / "cross-check.json").read_text()).items():
        for item in found["compared"]:
            if item["quantity"] in COMPARED:
                ours, theirs = (f"{value:,.4g}" for value in item["medians"])
                spreads = ", ".join(f"{spread:.1%}" for spread in item["spreads"])
                said = "agree" if item["agree"] else "**differ**"
                assert (
                    f"| {arm} | {item['concurrency']} | {item['quantity']} | {ours} | {theirs} | "
                    f"{spreads} | {item['difference']:.1%} | {item['allowed']:.1%} | {said} |"
                ) in PAGE
            elif item["quantity"].startswith("accepted_at"):
                assert item["agree"]
                assert item["difference"] < 0.0175


def test_the_page_says_what_the_dose_gave(example: ModuleType, tmp_path: Path) -> None:
    run = example.unpack(PAIR / "dose/run.tar.xz", tmp_path / "runs")
    build_index(tmp_path / "runs", tmp_path / "dose.duckdb")
    assert example.numbers(tmp_path / "dose.duckdb", run.name) == (
        (PAIR / "dose/numbers.json").read_text()
    )
    with opened(tmp_path / "dose.duckdb") as index:
        found = rows(
            index,
            "select concurrency, arm, rejected, output_throughput, 1000 * tpot_p50_s, "
            "acceptance_length from cells join deployments using (deployment_id)",
        )
    for load, arm, rejected, throughput, tpot_ms, length in found:
        told = "-" if length is None else f"{length:.2f}"
        kept = "rejected" if rejected else "kept"
        assert f"| {load} | {arm} | {throughput:,.0f} | {tpot_ms:.2f} | {told} | {kept} |" in PAGE


def test_the_h200_served_the_same_checkpoints_in_every_block(runs: Path) -> None:
    (run,) = runs.iterdir()
    arms = {path.name.split("-", 2)[2].rsplit("-", 1)[0] for path in run.glob("b*")}
    assert arms == {"baseline", *ARMS}
    targets = {
        json.dumps(json.loads(path.read_text())[0]["weights"])
        for path in run.glob("b*/checkpoints.json")
    }
    assert len(targets) == 1


def test_the_h200_example_names_no_machine_and_is_small() -> None:
    assert (PAIR / "report.html").stat().st_size < 3 * 2**20
    assert (PAIR / "run.tar.xz").stat().st_size <= 5 * 2**20
    for path in PAIR.rglob("*"):
        if path.suffix in (".json", ".html", ".csv", ".md", ".yaml"):
            assert not re.search(r"/(root|home|work|lab)/|GPU-[0-9a-f]{8}-", path.read_text()), path
