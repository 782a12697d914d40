from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

from specbench.whole_files import read_json
from tests.conftest import FinishedRun, run_cli


def numbers(results: Path) -> object:
    said = run_cli("report", "--json", "--results", results)
    assert said.exit_code == 0, said.output
    return json.loads(said.output)


def test_a_packed_run_is_whole_names_no_machine_and_gives_the_same_numbers(
    example: ModuleType, finished: FinishedRun, tmp_path: Path
) -> None:
    host = read_json(finished.run / "provenance.json")["machine"]["host"]
    example.rewrite(finished.run, tmp_path / "rewritten" / finished.run.name)
    example.pack(tmp_path / "rewritten" / finished.run.name, tmp_path / "run.tar.xz")
    run = example.unpack(tmp_path / "run.tar.xz", tmp_path / "runs")
    assert run_cli("verify", run).exit_code == 0
    assert (
        read_json(run / "provenance.json")["machine"]["host"],
        {read_json(path)["machine"]["host"] for path in run.glob("*/launch.json")},
    ) == ("host", {"host"})
    assert not [p for p in run.rglob("*.json*") if f'"{host}"' in p.read_text()]
    assert str(finished.folder) not in (run / "plan.json").read_text()
    results = tmp_path / "results.duckdb"
    assert run_cli("ingest", "--runs", tmp_path / "runs", "--results", results).exit_code == 0
    assert numbers(results) == numbers(finished.results)
