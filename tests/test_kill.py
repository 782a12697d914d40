"""SIGKILL at seeded random instants: no process, no lock and no torn cell is left.

`SPECBENCH_KILLS` says how often (200 in CI, a few in the plain tests).
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from specbench.artifacts import RunFolder, opened_run
from specbench.whole_files import file_digest
from tests.conftest import SMALL, write_small
from tests.launchers.test_local import alive, until

KILLS = int(os.environ.get("SPECBENCH_KILLS", "4"))
WORKERS = 2
LONGEST_S = 4.0
DOCUMENT = SMALL.replace("blocks: 2", "blocks: 1")


def whole_files(runs: Path) -> dict[Path, str]:
    """Give every file of every whole cell with its digest."""
    return {
        path: file_digest(path)
        for marker in runs.glob("*/*/*/cell.json")
        if not marker.parent.name.startswith(".")
        for path in marker.parent.iterdir()
    }


@pytest.mark.parametrize("seed", range(WORKERS))
def test_a_kill_at_any_instant_leaves_nothing_behind_and_loses_nothing_whole(
    seed: int, tmp_path: Path
) -> None:
    chance = random.Random(seed)
    spec = write_small(tmp_path, DOCUMENT)
    runs, scratch = tmp_path / "runs", tmp_path / "scratch"
    scratch.mkdir()
    # Servers and guards inherit TMPDIR, and nothing else on this machine has this one.
    environment = {**os.environ, "TMPDIR": str(scratch)}
    command = [sys.executable, "-m", "specbench", "run", spec, "--runs", runs, "--raw-only"]
    ended = 0
    for _ in range(KILLS // WORKERS):
        before = whole_files(runs)
        sibling = ["--again"] if ended else []
        ended = 0
        process = subprocess.Popen([*command, *sibling], env=environment, stdout=subprocess.DEVNULL)
        try:
            process.wait(timeout=chance.uniform(0.1, LONGEST_S))
            ended = process.returncode == 0
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert until(lambda: alive(str(scratch)) == []), "a process outlived its run"
        assert {path: file_digest(path) for path in before} == before
        for run in runs.glob("*"):
            with opened_run(run):
                pass
    started = time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - started < 120
    for run in runs.iterdir():
        held = [(a.deployment, name) for a in RunFolder(run).attempts() for name in a.cells()]
        assert len(held) == len(set(held))
    newest = max(runs.iterdir(), key=lambda path: (path / "plan.json").stat().st_mtime)
    assert len([name for a in RunFolder(newest).attempts() for name in a.cells()]) == 6
