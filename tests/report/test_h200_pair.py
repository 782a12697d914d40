from __future__ import annotations

import json
import re
from pathlib import Path
from types import ModuleType

from tests.conftest import ROOT, run_cli

PAIR = ROOT / "docs/examples/h200-pair"
ARMS = {"baseline", "baseline-repeat", "draft-k3", "ngram-k3", "eagle-k3"}


def test_the_report_of_the_h200_is_made_again_from_its_archive(
    example: ModuleType, tmp_path: Path
) -> None:
    run = example.unpack(PAIR / "run.tar.xz", tmp_path / "runs")
    assert run_cli("verify", run).exit_code == 0
    example.rebuild(tmp_path / "runs", run.name, tmp_path / "results.duckdb", tmp_path / "made")
    kept, made = ((place / "numbers.json").read_text() for place in (PAIR, tmp_path / "made"))
    assert json.loads(made) == json.loads(kept)


def test_the_h200_served_the_same_checkpoints_in_every_block(
    example: ModuleType, tmp_path: Path
) -> None:
    run = example.unpack(PAIR / "run.tar.xz", tmp_path / "runs")
    arms = {path.name.split("-", 2)[2].rsplit("-", 1)[0] for path in run.glob("b*")}
    assert arms == ARMS
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
            assert not re.search(r"/(root|home|work|lab)/", path.read_text()), path
