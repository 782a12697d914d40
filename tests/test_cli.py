from __future__ import annotations

import csv
import io
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT, SMALL, FinishedRun, run_cli, write_small

COMMANDS = (
    "completion",
    "doctor",
    "export",
    "init",
    "runs",
    "show",
    "status",
    "verify",
    "check",
    "ingest",
    "methods",
    "plan",
    "query",
    "report",
    "run",
    "schema",
    "workload",
)


def shell(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "specbench", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_help_names_every_command() -> None:
    said = run_cli("--help").output
    assert all(f"  {name} " in said for name in COMMANDS)


def test_help_imports_nothing_heavy() -> None:
    script = (
        "import sys, specbench.cli; "
        "print([m for m in ('attrs', 'rich', 'duckdb', 'altair', 'scipy', 'numpy', 'pyarrow', 'anyio', "
        "'jsonschema', 'httpx', 'pluggy', 'cattrs') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_help_is_quick() -> None:
    """0.15 s on an idle machine (benchmarks/startup.py); a busy one gets four times that."""
    took = []
    for _ in range(5):
        started = time.perf_counter()
        shell("--help")
        took.append(time.perf_counter() - started)
    assert statistics.median(took) < 0.6


def test_a_wrong_file_exits_2_with_one_message(tmp_path: Path) -> None:
    spec = write_small(tmp_path, SMALL.replace("seed: 5", "sed: 5"))
    done = shell("check", spec)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        f"error: {spec}:10: design.sed: unknown key 'sed'; did you mean 'seed'?",
        "1 problem; nothing was run",
    ]


def test_a_wrong_argument_exits_2() -> None:
    assert shell("plan").returncode == 2
    assert shell("nonsense").returncode == 2


def test_a_missing_index_exits_6(tmp_path: Path) -> None:
    done = shell("query", "select 1", "--results", tmp_path / "no.duckdb")
    assert (done.returncode, "does not exist" in done.stderr) == (6, True)


def test_check_says_what_it_found(tmp_path: Path) -> None:
    done = run_cli("check", write_small(tmp_path))
    assert done.exit_code == 0
    assert "3 arms, 6 prompts, no problem found" in done.output


def test_check_here_misses_an_unset_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    spec = write_small(tmp_path, SMALL.replace("model: toy,", 'model: "${NOT_THERE}",'))
    assert "note: NOT_THERE is not set here" in shell("check", spec).stdout
    done = shell("check", "--here", spec)
    assert (done.returncode, "export NOT_THERE=" in done.stderr) == (2, True)


def test_check_notes_an_unservable_arm_and_here_counts_the_interpreters_version(
    tmp_path: Path,
) -> None:
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    package = tmp_path / "venv/lib/python3.11/site-packages/vllm-0.11.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.11.0\n")
    draft = "{name: draft, method: draft_model, model: /m/draft, num_speculative_tokens: 3"
    document = SMALL.replace(
        "engine: simulated, model: toy, flags: {speed: 20, seed: 3}",
        "engine: vllm, model: /m",
    )
    document = document.replace(
        "arms:\n", f"launcher: {{python: {python}}}\narms:\n  - {draft}}}\n"
    )
    spec = write_small(tmp_path, document)
    found = run_cli("check", spec).output
    assert "4 arms, 6 prompts, no problem found" in found
    assert "is unservable" not in found
    note = (
        "note: arm 'draft' is unservable: vLLM 0.11 does not serve method 'draft_model'; 0.23 does"
    )
    assert note in run_cli("check", "--here", spec).output
    facts = json.loads(run_cli("plan", spec, "--json").output)
    assert [arm for arm, said in facts["arms"].items() if said["unservable"]] == ["draft"]
    assert "draft" not in {deployment["arm"] for deployment in facts["deployments"]}
    asked = json.loads(run_cli("plan", spec, "--json", "--launch-unservable").output)
    assert len(asked["deployments"]) == len(facts["deployments"]) + 2


def test_plan_starts_and_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = write_small(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.chdir(tmp_path)
    assert run_cli("plan", spec).exit_code == 0
    facts = json.loads(run_cli("plan", spec, "--json").output)
    assert sorted(facts["arms"]) == ["baseline", "eagle-k3", "ngram-k3"]
    assert len(facts["deployments"]) == 6
    assert sorted(tmp_path.rglob("*")) == before


def test_run_tells_every_cell_and_where_the_report_is(finished: FinishedRun) -> None:
    said = finished.result.output
    assert said.count("tok/s") == 12
    assert "[6/6, " in said
    assert "report:" in said


def test_query_speaks_table_csv_and_json(finished: FinishedRun) -> None:
    sql = "select arm, count(*) as n, null as nothing from deployments group by arm order by arm"
    asked = ("query", sql, "--results", finished.results, "--format")
    assert json.loads(run_cli(*asked, "json").output)[0] == {
        "arm": "baseline",
        "n": 2,
        "nothing": None,
    }
    assert list(csv.DictReader(io.StringIO(run_cli(*asked, "csv").output)))[1]["arm"] == "eagle-k3"
    table = run_cli(*asked, "table").output.splitlines()
    assert table[0].split() == ["arm", "n", "nothing"]
    assert table[1].split() == ["baseline", "2", "-"]


def test_a_wrong_query_exits_6_with_duckdbs_words(finished: FinishedRun) -> None:
    done = shell("query", "select nothing from cells", "--results", finished.results)
    assert done.returncode == 6
    assert "nothing" in done.stderr
    assert "Traceback" not in done.stderr


def test_schema_prints_the_committed_schema() -> None:
    for flags, name in (((), "experiment"), (("--workload",), "workload")):
        printed = json.loads(run_cli("schema", *flags).output)
        assert printed == json.loads((ROOT / f"schemas/{name}.schema.json").read_text())


def test_workload_validate_prints_strata_and_digest() -> None:
    said = run_cli("workload", "validate", ROOT / "workloads/smoke.jsonl").output.splitlines()
    assert [line.split()[0] for line in said] == ["chat", "code", "summary", "sha256"]


def test_report_writes_what_is_asked(finished: FinishedRun, tmp_path: Path) -> None:
    done = run_cli("report", "--results", finished.results, "--out", tmp_path)
    assert Path(done.output.strip()).exists()


def test_a_disk_that_is_full_is_one_message_and_whole_cells_are_kept(tmp_path: Path) -> None:
    """A limit on file size stands for the full disk: writing fails at the same place."""
    spec = write_small(tmp_path, SMALL.replace("blocks: 2", "blocks: 1"))
    script = (
        "import resource, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000)); from specbench.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "run", spec, "--runs", tmp_path / "runs", "--raw-only"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 6, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert "cannot write" in done.stderr
    assert "make room" in done.stderr


def test_runs_that_are_no_folder_are_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    done = shell("run", write_small(tmp_path), "--runs", tmp_path / "runs")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    done = shell("run", write_small(tmp_path), "--runs", "/proc/nowhere")
    assert (done.returncode, "cannot write to /proc/nowhere" in done.stderr) == (6, True)
