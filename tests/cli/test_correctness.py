"""The correctness commands on capture files, on a running server and on a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from specbench.capture_facts import Capture
from specbench.capture_files import capture_text, read_captures
from specbench.facts import Output, Window
from specbench.testing import simulated_server
from tests.conftest import FinishedRun, row, run_cli, write_small
from tests.loopback_proxy import proxying

NEAR, FAR = ((1, 0.0), (2, 0.25)), ((1, 0.0), (2, 3.0), (3, 4.0), (4, 5.0), (5, 6.0))


def write(path: Path, *texts: str, candidates: object = None) -> Path:
    """Write a capture of a token a letter: a is 1, b is 2."""
    outputs = tuple(
        Output(
            request_id=f"r{place}",
            prompt_id=f"p{place}",
            text=text,
            token_ids=[ord(letter) - 96 for letter in text],
            finish_reason="stop",
            candidates=None if candidates is None else [candidates] * len(text),  # type: ignore[list-item]
        )
        for place, text in enumerate(texts)
    )
    rows = tuple(
        row(place, completion_tokens=len(text), status="ok") for place, text in enumerate(texts)
    )
    window = Window(rows=rows, outputs=outputs, concurrency=1, clock="user", started_unix_s=0.0)
    path.write_text(capture_text([window]))
    return path


@pytest.fixture
def files(tmp_path: Path) -> Path:
    write(tmp_path / "base.jsonl", "aaaa", "aaaa", candidates=NEAR)
    write(tmp_path / "far-base.jsonl", "aaaa", "aaaa", candidates=FAR)
    write(tmp_path / "again.jsonl", "aaaa", "aaaa")
    write(tmp_path / "arm.jsonl", "aaaa", "aabb")
    return tmp_path


def test_files_are_compared_prompt_by_prompt(files: Path) -> None:
    done = run_cli("correctness", "compare", files / "base.jsonl", files / "arm.jsonl")
    assert done.exit_code == 0
    assert done.output.splitlines()[0].startswith("concurrency 1: 1 of 2 texts are equal")
    assert "p1  prefix 2 (0.500)  edit distance 0.500  tokens 0" in done.output
    assert "token 2 (0.25 nats behind): 'aa' -> 'aa' | 'bb'" in done.output
    told = json.loads(
        run_cli(
            "correctness", "compare", files / "base.jsonl", files / "arm.jsonl", "--json"
        ).output
    )
    assert told[0]["worst"] == {"prefix_fraction": 0.5, "edit_distance": 0.5, "tokens": 0}


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "REACH is not set"), ("socks5://u:hunter22@h:1", "REACH holds no http://host:port")],
)
def test_a_proxy_that_a_capture_cannot_use_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str | None, said: str
) -> None:
    monkeypatch.delenv("REACH", raising=False)
    if value is not None:
        monkeypatch.setenv("REACH", value)
    write_small(tmp_path)
    places = ["--workload", tmp_path / "small.jsonl", "--out", tmp_path / "out"]
    done = run_cli("correctness", "capture", "http://h", *places, "--proxy-env", "REACH")
    assert done.exit_code == 2
    assert said in done.output
    assert "hunter22" not in done.output


@pytest.mark.parametrize(
    ("base", "control", "verdict", "code"),
    [
        ("base.jsonl", "again.jsonl", "pass-explained", 0),
        ("far-base.jsonl", "again.jsonl", "blocked", 7),
        ("base.jsonl", None, "undecided", 7),
    ],
)
def test_the_gate_leaves_with_7_unless_it_passes(
    files: Path, base: str, control: str | None, verdict: str, code: int
) -> None:
    options = ["--control", str(files / control)] if control else []
    asked = ["correctness", "gate", files / base, files / "arm.jsonl", *options]
    done = run_cli(*asked)
    assert done.exit_code == code
    assert f"arm at concurrency 1: {verdict.upper()}: " in done.output
    assert "A pass is no evidence of a violation" in done.output
    assert json.loads(run_cli(*asked, "--json").output)[0]["verdict"] == verdict


def test_margins_and_near_ties_can_be_asked(files: Path) -> None:
    asked = ["correctness", "gate", files / "far-base.jsonl", files / "arm.jsonl"]
    asked += ["--control", files / "again.jsonl"]
    assert run_cli(*asked, "--near-tie-nats", "3").exit_code == 0
    wide = json.loads(run_cli(*asked, "--prefix-margin", "0.6", "--json").output)
    assert wide[0]["checks"][0]["held"] is True


def test_a_file_twice_is_no_control(files: Path) -> None:
    base = files / "base.jsonl"
    done = run_cli("correctness", "gate", base, files / "arm.jsonl", "--control", base)
    assert "UNDECIDED: there is no control" in done.output


def test_a_run_is_judged_from_its_raw_folder(finished: FinishedRun, lossy: FinishedRun) -> None:
    good = run_cli("correctness", "gate", finished.run.name, "--runs", finished.folder / "runs")
    assert good.exit_code == 0
    assert good.output.count(": PASS: ") == 2
    bad = run_cli("correctness", "gate", lossy.run.name, "--runs", lossy.folder / "runs")
    assert bad.exit_code == 7
    assert bad.output.count(": BLOCKED: ") == 2
    assert "cross-deployment control of baseline" in bad.output


def test_an_explanation_needs_an_arm_of_the_run(lossy: FinishedRun, tmp_path: Path) -> None:
    shutil.copytree(lossy.run, tmp_path / lossy.run.name)
    asked = ["correctness", "explain", lossy.run.name]
    place = ["--runs", str(tmp_path)]
    assert run_cli(*asked, "nobody", "why", *place).exit_code == 2
    assert run_cli(*asked, "ngram-k3", " ", *place).exit_code == 2
    assert run_cli(*asked, "ngram-k3", "It swaps tokens on purpose.", *place).exit_code == 0
    # The verdict stays what it is.
    assert run_cli("correctness", "gate", lossy.run.name, *place).exit_code == 7


def test_a_running_server_is_captured_twice_to_the_same_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second time through a proxy."""
    write_small(tmp_path)
    prompts = tmp_path / "small.jsonl"
    with simulated_server() as server, proxying() as proxy:
        monkeypatch.setenv("REACH", f"http://user:hunter22@127.0.0.1:{proxy.port}")
        for name, through in (("one", ()), ("two", ("--proxy-env", "REACH"))):
            options = ["--workload", prompts, "--out", tmp_path / name, "--concurrency", 2]
            options += through
            done = run_cli("correctness", "capture", server.base_url, *options)
            assert done.exit_code == 0, done.output
            assert "6 of 6 outputs" in done.output
            assert "log-probabilities" not in done.output
        taken = run_cli("correctness", "capture", server.base_url, *options)
    assert taken.exit_code == 2
    assert "is there already" in taken.output
    assert proxy.lines() == {
        f"{asked} {server.base_url}/{path} HTTP/1.1"
        for asked, path in (
            ("GET", "v1/models"),
            ("GET", "metrics"),
            ("POST", "v1/chat/completions"),
        )
    }
    one, two = (
        read_captures(tmp_path / name, Capture(arm="x", deployment="x"))[0]
        for name in ("one", "two")
    )
    assert one == two
    assert all(len(output.candidates or ()) == output.completion_tokens for output in one.outputs)
    assert one.concurrency == 2
