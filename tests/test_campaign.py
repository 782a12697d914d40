"""The walk on the simulated engine, from the command line."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest

from specbench import campaign
from specbench.artifacts import RunFolder, opened_run
from specbench.experiment.read import ReadExperiment
from specbench.methods import Method
from specbench.plan import plan
from specbench.stopping import Stopping
from specbench.store.store import opened, rows
from specbench.whole_files import file_digest, read_json, write_json
from tests.conftest import (
    SMALL,
    FinishedRun,
    plant_plugin,
    run_cli,
    run_command,
    run_small,
    shell,
    write_small,
)

ONE = SMALL.replace("blocks: 2", "blocks: 1")
PAIR = ONE.replace(
    '  - {name: "ngram-k{num_speculative_tokens}", method: ngram, num_speculative_tokens: [3]}\n',
    "",
)
"""Two deployments of two cells: for claims about the walk that need no third arm."""


def test_every_deployment_is_complete_and_every_cell_whole(finished: FinishedRun) -> None:
    attempts = RunFolder(finished.run).attempts()
    assert len(attempts) == 6
    for attempt in attempts:
        assert attempt.closing()["status"] == "complete"
        assert set(attempt.cells()) == {"mixed-greedy-c1", "mixed-greedy-c4"}
        for name in (
            "launch.json",
            "launch.log",
            "server_info.json",
            "audit.json",
            "capture-1.jsonl",
            "capture-2.jsonl",
        ):
            assert (attempt.path / name).exists()


def test_the_run_folder_says_what_was_asked_and_where(finished: FinishedRun) -> None:
    assert (finished.run / "experiment.yaml").read_text() == SMALL
    origin = json.loads((finished.run / "provenance.json").read_text())
    assert origin["software"]["specbench"]
    assert origin["machine"]["cpus"]
    assert len(origin["workloads"][0]["sha256"]) == 64


def test_greedy_text_is_equal_across_arms_and_deployments(finished: FinishedRun) -> None:
    texts = {
        tuple(
            sorted(
                (c["prompt_id"], c["text"]) for c in attempt.captures() if c["capture"] == number
            )
        )
        for attempt in RunFolder(finished.run).attempts()
        for number in (1, 2)
    }
    assert len(texts) == 1
    assert all(text for _, text in next(iter(texts)))


def test_captures_carry_the_likely_tokens_of_every_place_in_every_arm(
    finished: FinishedRun,
) -> None:
    for attempt in RunFolder(finished.run).attempts():
        for capture in attempt.captures():
            assert capture["completion_tokens"] == len(capture["token_ids"])
            assert len(capture["candidates"]) == len(capture["token_ids"])
            for token, candidates in zip(capture["token_ids"], capture["candidates"], strict=True):
                # Without noise the greedy token is the likeliest.
                assert candidates[0] == [token, 0.0]
                assert all(0 <= nats <= 10 for _, nats in candidates)


def test_several_tokens_arrive_in_one_event_and_usage_is_exact(finished: FinishedRun) -> None:
    for attempt in RunFolder(finished.run).attempts():
        for cell in attempt.cells().values():
            for row in cell.rows():
                assert row.status == "ok"
                assert row.completion_tokens == sum(filter(None, row.event_tokens))
                assert (
                    ("eagle" in attempt.deployment)
                    or ("ngram" in attempt.deployment)
                    or (len(row.event_ns) == row.completion_tokens)
                )
    eagle = next(a for a in RunFolder(finished.run).attempts() if "eagle" in a.deployment)
    assert max(max(r.event_tokens) for c in eagle.cells().values() for r in c.rows()) > 1


def test_no_cell_warms_anothers_prefix_cache(finished: FinishedRun) -> None:
    ids = [
        row.request_id
        for attempt in RunFolder(finished.run).attempts()
        for cell in attempt.cells().values()
        for row in cell.rows()
    ]
    assert len(ids) == len(set(ids))


def test_a_second_run_does_nothing_again(copied: Path, tmp_path: Path) -> None:
    # The copy's plan names its own document, as the next run will write it.
    before = {
        path: file_digest(path)
        for path in copied.rglob("*")
        if path.is_file() and "journal" not in path.name and path.name != "plan.json"
    }
    again = run_small(tmp_path, SMALL, "--raw-only")
    assert again.run == copied
    assert again.result.exit_code == 0
    assert " complete" not in again.result.output
    assert {path: file_digest(path) for path in before} == before


def test_a_failed_launch_is_evidence_and_the_others_go_on(tmp_path: Path) -> None:
    # The simulated server takes no such number: argparse refuses it, as vLLM refuses flags.
    document = ONE.replace("seed: 3}", "seed: x}")
    done = run_small(tmp_path, document)
    assert done.result.exit_code == 4
    with opened(done.results) as connection:
        found = rows(connection, "select distinct status, cause_kind, cause_line from deployments")
    assert found == [
        {
            "status": "failed",
            "cause_kind": "bad_flag",
            "cause_line": "simulated: error: argument --seed: invalid int value: 'x'",
        }
    ]
    assert "no block has both" in done.result.output


RENAMING = """
from specbench_ngram import Ngram
from specbench import Launch, hookimpl

class Renamed(Ngram):
    name = "renamed"
    def launch(self, options, target):
        return Launch(speculation={"method": "eagle3", "num_speculative_tokens": 3, "model": "m"})

@hookimpl
def specbench_methods():
    yield Renamed()
"""


def test_a_method_that_is_not_in_effect_is_not_measured(tmp_path: Path) -> None:
    """The arm asks for ngram, and the server runs eagle3, as a renaming path makes vLLM do."""
    site = plant_plugin(tmp_path, "renaming", RENAMING)
    spec = write_small(tmp_path, ONE.replace("method: ngram", "method: renamed"))
    done = shell(run_command(spec, tmp_path, "--strict"), PYTHONPATH=site)
    assert done.returncode == 7, done.stdout + done.stderr
    assert "rejected: not in effect: in_effect.method is eagle3, asked ngram" in done.stdout
    (rejected,) = (tmp_path / "runs").glob("*/b01-*-ngram-k3-a1")
    assert not list(rejected.glob("*/cell.json"))


def wait_for(claim: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not claim():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_was_stopped_goes_on_where_it_was(tmp_path: Path, blow: signal.Signals) -> None:
    spec = write_small(tmp_path, PAIR)
    command = run_command(spec, tmp_path)
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: len(list((tmp_path / "runs").glob("*/b01-02*/*/cell.json"))) == 1)
    first.send_signal(blow)
    _, said = first.communicate()
    assert first.returncode == (-signal.SIGKILL if blow == signal.SIGKILL else 130)
    assert (
        blow == signal.SIGKILL
        or f"`specbench run {next((tmp_path / 'runs').iterdir())}` goes on" in said
    )
    (run,) = (tmp_path / "runs").iterdir()
    whole = {
        path: file_digest(path)
        for path in run.rglob("*/*/*")
        if path.is_file() and ".partial" not in str(path)
    }
    assert len(whole) >= 15
    done = run_small(tmp_path, PAIR)
    assert done.result.exit_code == 0, done.result.output
    assert {path: file_digest(path) for path in whole} == whole
    attempts = RunFolder(run).attempts()
    assert [a.closing()["status"] for a in attempts if a.deployment.startswith("b01-02")] == [
        "interrupted",
        "complete",
    ]
    cells = sorted((a.deployment, name) for a in attempts for name in a.cells())
    assert len(cells) == len(set(cells)) == 4
    with opened(done.results) as connection:
        split = rows(connection, "select distinct block, place, split from deployments where split")
    assert split == [{"block": 1, "place": 2, "split": True}]


def test_a_server_that_dies_in_a_window_leaves_its_rows_and_is_measured_again(
    tmp_path: Path,
) -> None:
    document = ONE.replace("speed: 20", "speed: 1")
    spec = write_small(tmp_path, document)
    command = run_command(spec, tmp_path)
    first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def driven() -> bool:
        journals = list((tmp_path / "runs").glob("*/journal.jsonl"))
        return bool(journals) and any(
            entry.phase == "drive" and entry.state == "start" and "eagle" in entry.deployment
            for entry in RunFolder(journals[0].parent).journal()
        )

    wait_for(driven)
    (launch,) = (tmp_path / "runs").glob("*/*eagle-k3-a1/launch.json")
    os.kill(json.loads(launch.read_text())["pid"], signal.SIGKILL)
    said, _ = first.communicate()
    assert first.returncode == 0, said
    assert "REJECTED" in said
    with opened(tmp_path / "r.duckdb") as connection:
        (failed,) = rows(
            connection, "select status, reason, exit_code from deployments where arm = 'eagle-k3'"
        )
        (cell,) = rows(
            connection,
            "select rejected, requests, successes from cells join deployments using (deployment_id) where arm = 'eagle-k3'",
        )
        gone = rows(
            connection,
            "select missing from effects where arm = 'eagle-k3' and estimate is not null",
        )
    assert (failed["status"], failed["exit_code"]) == ("failed", -signal.SIGKILL)
    assert "gives no counters" in failed["reason"]
    assert cell["rejected"]
    assert cell["successes"] < cell["requests"]
    assert gone == []
    again = run_small(tmp_path, document)
    assert again.result.exit_code == 0, again.result.output
    with opened(again.results) as connection:
        found = rows(
            connection,
            "select attempt, status, count(c.cell_id) filter (not c.rejected) as whole from deployments join cells c using (deployment_id) where arm = 'eagle-k3' group by all order by 1",
        )
        effects = rows(
            connection,
            "select blocks from effects where arm = 'eagle-k3' and metric = 'output_throughput'",
        )
    assert found == [
        {"attempt": 1, "status": "failed", "whole": 0},
        {"attempt": 2, "status": "complete", "whole": 2},
    ]
    assert [row["blocks"] for row in effects] == [1, 1]


def test_a_confirmation_gives_no_effect_for_an_arm_that_is_split(
    copied: Path, tmp_path: Path
) -> None:
    for second in copied.glob("b02-*"):
        shutil.rmtree(second)
    plan = read_json(copied / "plan.json")
    confirmed = {**plan["experiment"], "stage": "confirmation"}
    write_json(copied / "plan.json", {**plan, "experiment": confirmed})
    (attempt,) = copied.glob("*ngram-k3-a1")
    other = attempt.with_name(attempt.name.replace("-a1", "-a2"))
    other.mkdir()
    (attempt / "mixed-greedy-c4").rename(other / "mixed-greedy-c4")
    for name in ("audit.json", "deployment.json"):
        (other / name).write_text((attempt / name).read_text())
    results = tmp_path / "results.duckdb"
    done = run_cli("ingest", "--runs", copied.parent, "--results", results)
    assert done.exit_code == 0, done.output
    with opened(results) as connection:
        found = rows(
            connection, "select distinct estimate, missing from effects where arm = 'ngram-k3'"
        )
        others = rows(
            connection,
            "select distinct estimate is null as absent from effects "
            "where arm = 'eagle-k3' and metric not like '%p95%'",
        )
    assert found == [
        {"estimate": None, "missing": ["block 1: its cells come from several attempts"]}
    ]
    assert others == [{"absent": False}]


def refused(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return shell(run_command(write_small(folder, ONE), folder, *options))


def test_a_run_that_ran_out_of_time_starts_nothing_more_and_goes_on_from_its_folder(
    tmp_path: Path,
) -> None:
    first = run_small(tmp_path, PAIR, "--for", "1s", "--raw-only")
    assert first.result.exit_code == 0, first.result.output
    assert "the time is up" in first.result.output
    measured = [attempt.closing()["status"] for attempt in RunFolder(first.run).attempts()]
    assert measured.count("complete") < 2
    assert not first.results.exists()
    done = run_cli("run", first.run, "--results", first.results, "--reports", tmp_path / "reports")
    assert done.exit_code == 0, done.output
    attempts = RunFolder(first.run).attempts()
    cells = sorted((a.deployment, name) for a in attempts for name in a.cells())
    assert len(cells) == len(set(cells)) == 4
    assert list((tmp_path / "reports").glob("*.html"))


def test_a_checkpoint_that_changed_since_the_run_began_is_not_served(
    tmp_path: Path,
    read_small: Callable[..., ReadExperiment],
    methods: Mapping[str, Method[Any]],
) -> None:
    (tmp_path / "head").mkdir()
    weights = tmp_path / "head" / "model.safetensors"
    weights.write_bytes(b"1")
    made = plan(read_small(ONE.replace("toy-head", str(tmp_path / "head"))), methods)
    eagle = next(one for one in made.deployments if one.arm.name == "eagle-k3")
    made = attrs.evolve(made, deployments=(eagle,))
    with opened_run(tmp_path / "run") as folder:
        campaign.prepare(made, folder)
        weights.write_bytes(b"2")
        told = (lambda _: None, lambda _: None, Stopping(lambda _: None), frozenset[int](), None)
        anyio.run(campaign.walk, made, folder, *told)
        (attempt,) = folder.attempts()
    closing = attempt.closing()
    assert (closing["status"], closing["kind"]) == ("failed", "checkpoint_changed")
    assert str(weights) in closing["reason"]
    assert not attempt.log.exists()
    kept = json.loads((attempt.path / "checkpoints.json").read_text())
    assert kept[1]["weights"] == {weights.name: hashlib.sha256(b"2").hexdigest()}


def test_a_wrong_duration_is_refused(tmp_path: Path) -> None:
    done = refused(tmp_path, "--for", "9")
    assert (done.returncode, "is no duration" in done.stderr) == (2, True)


def test_a_sibling_and_a_rehearsal_are_runs_of_their_own(tmp_path: Path) -> None:
    document = ONE.replace(
        "  - {name: eagle-k3, method: eagle, model: toy-head, num_speculative_tokens: 3}\n", ""
    )
    for more in ((), ("--again",)):
        assert run_small(tmp_path, document, "--raw-only", *more).result.exit_code == 0
    rehearsed = run_small(tmp_path, document, "--only", "ngram-k3", "--dry-cells", "1")
    assert rehearsed.result.exit_code == 0, rehearsed.result.output
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    digest = names[0].split("-")[1]
    assert names == [f"small-{digest}", f"small-{digest}-rehearsal", f"small-{digest}.2"]
    with opened(rehearsed.results) as connection:
        found = rows(
            connection,
            "select run_id, rehearsal, count(cell_id) as cells from experiments join deployments using (run_id) join cells using (deployment_id) group by all order by 1",
        )
        effects = rows(connection, "select distinct run_id from effects order by 1")
    assert [(row["rehearsal"], row["cells"]) for row in found] == [
        (False, 4),
        (True, 1),
        (False, 4),
    ]
    assert [row["run_id"] for row in effects] == [names[0], names[2]]
    page = (tmp_path / "reports" / f"{names[1]}.html").read_text()
    assert "REHEARSAL" in page


def test_an_arm_that_does_not_exist_cannot_be_rehearsed(tmp_path: Path) -> None:
    done = refused(tmp_path, "--only", "nobody")
    assert (done.returncode, "one of: baseline, ngram-k3, eagle-k3" in done.stderr) == (2, True)


def test_a_block_whose_baseline_failed_is_replaced_by_a_whole_one(
    copied: Path, tmp_path: Path
) -> None:
    (baseline,) = copied.glob("b01-*-baseline-a1/deployment.json")
    baseline.write_text(
        json.dumps({**json.loads(baseline.read_text()), "status": "failed", "reason": "planted"})
    )
    done = run_small(tmp_path, SMALL, "--raw-only").result
    assert done.exit_code == 0, done.output
    assert "block 1 has no baseline" in done.output
    names = [attempt.path.name for attempt in RunFolder(copied).attempts()]
    assert len([name for name in names if name.startswith("b03")]) == 3
    assert len(names) == 9
    run_small(tmp_path, SMALL, "--raw-only")
    assert len(RunFolder(copied).attempts()) == 9


def test_a_renamed_run_folder_goes_on_and_a_changed_workload_is_named(
    copied: Path, tmp_path: Path
) -> None:
    renamed = copied.rename(copied.with_name("my-best-run"))
    command = [sys.executable, "-m", "specbench", "run", str(renamed), "--raw-only"]
    gone_on = run_cli(*command[3:])
    assert (gone_on.exit_code, "nothing is left to do" in gone_on.output) == (0, True)
    workload = tmp_path / "small.jsonl"
    workload.write_text(workload.read_text().replace("the sea", "the lake"))
    done = shell(command)
    assert done.returncode == 6
    assert "begun: correctness, workloads" in done.stderr


def test_a_run_folder_of_another_document_is_not_gone_on_with(copied: Path, tmp_path: Path) -> None:
    write_small(tmp_path, SMALL.replace("speed: 20", "speed: 2"))
    done = subprocess.run(
        [sys.executable, "-m", "specbench", "run", copied],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 6
    assert "has changed since" in done.stderr
    assert "begun: target" in done.stderr


def test_one_interrupt_finishes_the_requests_in_flight_and_a_second_one_stops_now(
    tmp_path: Path,
) -> None:
    document = ONE.replace("speed: 20", "speed: 0.16")
    spec = write_small(tmp_path, document)
    command = [
        sys.executable,
        "-m",
        "specbench",
        "run",
        spec,
        "--runs",
        tmp_path / "runs",
        "--raw-only",
    ]
    for blows, finished in ((1, True), (2, False)):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None

        def entries() -> list[tuple[str, str]]:
            journals = list((tmp_path / "runs").glob("*/journal.jsonl"))
            return (
                [(e.phase, e.state) for e in RunFolder(journals[0].parent).journal()]
                if journals
                else []
            )

        earlier = entries().count(("drive", "start"))
        wait_for(lambda seen=earlier: entries().count(("drive", "start")) > seen)
        for _ in range(blows):
            process.send_signal(signal.SIGINT)
            told = process.stderr.readline()
        assert ("finishing the requests in flight" in told) is finished
        _, rest = process.communicate()
        assert process.returncode == 130
        assert "everything whole is kept" in rest
    (run,) = (tmp_path / "runs").iterdir()
    assert [name for attempt in RunFolder(run).attempts() for name in attempt.cells()] == []


@pytest.mark.parametrize(
    ("script", "kind", "said"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed", "ended by signal 9"),
        ("import time; time.sleep(60)", "timeout", "not ready after 1 s"),
    ],
)
def test_a_silent_end_is_classified_by_what_is_seen_from_outside(
    tmp_path: Path, script: str, kind: str, said: str
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!{sys.executable}\nprint('starting', flush=True)\n{script}\n")
    python.chmod(0o755)
    document = ONE + f"launcher: {{python: {python}, ready_timeout_s: 1}}\n"
    done = run_small(tmp_path, document)
    assert done.result.exit_code == 4
    with opened(done.results) as connection:
        (found,) = rows(
            connection, "select distinct cause_kind, cause_line, remedy from deployments"
        )
    assert found["cause_kind"] == kind
    assert said in found["cause_line"]
    assert found["remedy"]


def test_raw_only_needs_no_database_no_charts_and_no_statistics(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "for name in ('duckdb', 'altair', 'scipy', 'vl_convert'): sys.modules[name] = None\n"
        "from specbench.cli import main; main()"
    )
    spec = write_small(tmp_path, PAIR)
    done = shell(
        [
            sys.executable,
            "-c",
            script,
            "run",
            str(spec),
            "--runs",
            str(tmp_path / "runs"),
            "--raw-only",
        ]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list((tmp_path / "runs").glob("*/*/*/cell.json"))) == 4
