"""Fixtures that several tests share."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import click
import pytest
from click.testing import CliRunner, Result

from specbench.cli import cli
from specbench.experiment.read import ReadExperiment, read_experiment
from specbench.facts import RequestRow
from specbench.methods import Method
from specbench.plugins import load_methods
from specbench.whole_files import read_json, write_json

ROOT = Path(__file__).parent.parent
CAPTURES = Path(__file__).parent / "captures"

SMALL = """\
name: small
question: Does the walk work?
target: {engine: simulated, model: toy, flags: {speed: 20, seed: 3}}
arms:
  - {name: baseline, method: baseline}
  - {name: "ngram-k{num_speculative_tokens}", method: ngram, num_speculative_tokens: [3]}
  - {name: eagle-k3, method: eagle, model: toy-head, num_speculative_tokens: 3}
workloads: [{path: small.jsonl}]
load: {closed: {concurrency: [1, 4], requests: {1: 6, 4: 12}}}
design: {blocks: 2, seed: 5, noise_floor: false}
correctness: {workload: small.jsonl, captures: 2, concurrency: [2]}
gates:
  achieved_concurrency: 0.3
  simulator_late_steps: 1
  client_lag_p99_ms: 1000
  client_cpu_share: 4
"""
# Tests share a busy machine: gaps, late reads and late steps are no news. The gates are tested on
# their own.

LOSSY = (
    SMALL.replace("seed: 3}", "seed: 3, lossiness: 0.1, noise-nats: 0.1}")
    .replace("blocks: 2, seed: 5, noise_floor: false", "blocks: 1, seed: 5, noise_floor: true")
    .replace("speculative_tokens: 3}\n", "speculative_tokens: 3, synthetic_acceptance_length: 3}\n")
    .replace("[1, 4], requests: {1: 6, 4: 12}", "[4], requests: {4: 6}")
)

PROMPT = (
    '{{"id": "{id}", "stratum": "{stratum}", "messages": [{{"role": "user", "content": "{said}"}}],'
    ' "max_tokens": 12, "source": "test", "licence": "Apache-2.0"}}\n'
)


def write_small(folder: Path, document: str = SMALL) -> Path:
    """Write a small experiment and its prompts, and give the document's path."""
    words = (
        "tell me of the sea and the wind",
        "def add(a, b): what does it return here",
        "list three colours of the rainbow",
        "class Box: write its first method now",
        "why is the sky blue in the day",
        "import os and show the files",
    )
    lines = [
        PROMPT.format(id=f"p{place}", stratum="mixed", said=said)
        for place, said in enumerate(words)
    ]
    (folder / "small.jsonl").write_text("".join(lines))
    path = folder / "small.yaml"
    path.write_text(document)
    return path


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep certificates of tests out of the home of whoever runs them."""
    os.environ["XDG_CACHE_HOME"] = str(shared_folder(tmp_path_factory) / "cache")


@pytest.fixture(scope="session")
def methods() -> Mapping[str, Method[Any]]:
    return {name: loaded.method for name, loaded in load_methods().items()}


@pytest.fixture
def read_small(tmp_path: Path, methods: Mapping[str, Method[Any]]) -> Callable[..., ReadExperiment]:
    def read(document: str = SMALL) -> ReadExperiment:
        return read_experiment(write_small(tmp_path, document), methods)

    return read


@attrs.frozen
class FinishedRun:
    """A run that the command line made."""

    folder: Path
    """The working folder: runs/, results.duckdb, reports/."""
    result: Result

    @property
    def run(self) -> Path:
        return next((self.folder / "runs").iterdir())

    @property
    def results(self) -> Path:
        return self.folder / "results.duckdb"


def run_cli(*arguments: str | Path) -> Result:
    """Run a command in this process, and give its exit code and words."""
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def run_command(spec: Path, folder: Path, *options: str) -> list[str]:
    """Give the command line that runs an experiment into a folder, for a process of its own."""
    places = (
        "--runs",
        folder / "runs",
        "--results",
        folder / "r.duckdb",
        "--reports",
        folder / "reports",
    )
    return [sys.executable, "-m", "specbench", "run", *map(str, (spec, *places, *options))]


def shell(command: Sequence[str], **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command line with more environment, and give its exit code and words."""
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def plant_plugin(folder: Path, name: str, module: str) -> str:
    """Write an installed distribution with one plugin module, and give its PYTHONPATH."""
    site = folder / "site"
    metadata = site / f"{name}-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(f"[specbench]\n{name} = {name}\n")
    (site / f"{name}.py").write_text(module)
    return str(site)


def run_small(folder: Path, document: str = SMALL, *options: str) -> FinishedRun:
    """Run an experiment on the simulated engine in a folder."""
    spec = write_small(folder, document)
    result = run_cli(
        "run",
        spec,
        "--runs",
        folder / "runs",
        "--results",
        folder / "results.duckdb",
        "--reports",
        folder / "reports",
        *options,
    )
    return FinishedRun(folder, result)


def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder that all workers of this test run share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def made_once(
    tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], str]
) -> tuple[Path, str]:
    """Make something once for all workers: give its folder, and the text that making it gave.

    Nothing may write into that folder afterwards.
    """
    folder = shared_folder(tmp_path_factory) / name
    said = folder / "said.txt"
    with (folder.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not said.exists():
            folder.mkdir()
            said.write_text(make(folder))
    return folder, said.read_text()


def shared_run(
    tmp_path_factory: pytest.TempPathFactory, name: str, document: str = SMALL
) -> FinishedRun:
    """Run an experiment once for all workers."""

    def run(folder: Path) -> str:
        done = run_small(folder, document)
        assert done.result.exit_code == 0, done.result.output
        return done.result.output

    folder, said = made_once(tmp_path_factory, name, run)
    again = click.Command("said", callback=lambda: click.echo(said, nl=False))
    return FinishedRun(folder, CliRunner().invoke(again))


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """One whole run."""
    return shared_run(tmp_path_factory, "finished")


@pytest.fixture(scope="session")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    """A run whose arms speculate with loss, one of them under synthetic acceptance. Shared."""
    return shared_run(tmp_path_factory, "lossy", LOSSY)


@pytest.fixture
def copied(finished: FinishedRun, tmp_path: Path) -> Path:
    """A copy of the finished run in the test's own folder, with its document and prompts.

    Running that document with `--runs` of that folder goes on with the copy.
    """
    run = tmp_path / "runs" / finished.run.name
    shutil.copytree(finished.run, run)
    plan = read_json(run / "plan.json")
    write_json(run / "plan.json", plan | {"spec": str(write_small(tmp_path))})
    return run


def row(index: int = 0, **changes: Any) -> RequestRow:
    """Give a request row: sent at 0, first payload at 100 ms, 11 tokens until 600 ms."""
    base = RequestRow(
        request_id=f"r{index}",
        index=index,
        prompt_id="p",
        pass_index=0,
        called_ns=0,
        sent_ns=0,
        first_event_ns=100_000_000,
        first_payload_ns=100_000_000,
        first_tokens_ns=100_000_000,
        last_payload_ns=600_000_000,
        ended_ns=610_000_000,
        status="ok",
        http_status=200,
        finish_reason="length",
        prompt_tokens=5,
        completion_tokens=11,
        event_ns=(100_000_000, 600_000_000),
        event_tokens=(1, 10),
    )
    return attrs.evolve(base, **changes)
