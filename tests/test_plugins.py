"""Discovery, and a third party's distribution that is really built and installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest

from specbench.errors import PluginError
from specbench.plugins import load_methods
from tests.conftest import ROOT, SMALL, run_command, shell, write_small

MODULE = """
from specbench_baseline import Baseline
from specbench import hookimpl

class Mine(Baseline):
    name = "{name}"

@hookimpl
def {hook}():
    yield {given}
"""


def point(module: str, distribution: str) -> EntryPoint:
    found = EntryPoint(name=module, value=module, group="specbench")
    vars(found)["dist"] = SimpleNamespace(name=distribution, version="2.0")
    return found


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(module: str, text: str) -> EntryPoint:
        (tmp_path / f"{module}.py").write_text(text)
        return point(module, f"dist-of-{module}")

    return write


def module(name: str = "mine", hook: str = "specbench_methods", given: str = "Mine()") -> str:
    return MODULE.format(name=name, hook=hook, given=given)


def test_the_built_ins_come_by_entry_points_of_specbench() -> None:
    found = load_methods()
    assert {"baseline", "draft_model", "eagle", "ngram"} <= set(found)
    assert {found[name].distribution for name in ("baseline", "ngram")} == {"specbench"}
    assert list(found) == sorted(found)


def test_a_plugin_of_ones_own_is_found(install) -> None:
    assert list(load_methods([install("plain_plugin", module())])) == ["mine"]


def test_a_name_clash_names_both_distributions(install) -> None:
    points = [install("first_plugin", module()), install("second_plugin", module())]
    with pytest.raises(PluginError) as caught:
        load_methods(points)
    assert "dist-of-first_plugin 2.0 and dist-of-second_plugin 2.0" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("broken_plugin", "import no_such_library", "No module named 'no_such_library'"),
        ("raising_plugin", module(given="1 / 0"), "ZeroDivisionError"),
        ("misspelt_plugin", module(hook="specbench_method"), "unknown hook 'specbench_method'"),
        ("empty_plugin", "", "implements no hook"),
        ("wrong_plugin", module(given="42"), "which is no specbench.Method"),
    ],
)
def test_a_fault_names_the_distribution(install, name: str, text: str, said: str) -> None:
    with pytest.raises(PluginError) as caught:
        load_methods([install(name, text)])
    assert f"dist-of-{name} 2.0" in str(caught.value)
    assert said in str(caught.value)


def test_loading_can_be_restricted(install, monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        install("kept_plugin", module("kept")),
        install("bad_plugin", "import no_such_library"),
    ]
    monkeypatch.setenv("SPECBENCH_PLUGINS", "kept_plugin")
    assert list(load_methods(points)) == ["kept"]


def documented(language: str) -> list[str]:
    """Give the code blocks of docs/plugins.md in a language."""
    return re.findall(
        rf"```{language}\n(.*?)```", (ROOT / "docs/plugins.md").read_text(), re.DOTALL
    )


def test_the_documented_plugin_builds_installs_and_runs(tmp_path: Path) -> None:
    """Offline: pip builds with the backend that is here and resolves nothing."""
    source = tmp_path / "source"
    (source / "specbench_lookahead").mkdir(parents=True)
    (source / "pyproject.toml").write_text(documented("toml")[0])
    (source / "specbench_lookahead/__init__.py").write_text(documented("python")[0])
    site = tmp_path / "site"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-index",
            "--no-deps",
            "--no-build-isolation",
            "--target",
            site,
            source,
        ],
        check=True,
        capture_output=True,
    )
    (arm,) = documented("yaml")
    document = SMALL.replace(
        "  - {name: eagle-k3, method: eagle, model: toy-head, num_speculative_tokens: 3}\n", arm
    )
    spec = write_small(tmp_path, document)
    done = shell(run_command(spec, tmp_path, "--strict"), PYTHONPATH=str(site))
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"lookahead-k4-a1 complete", done.stdout)
    listed = subprocess.run(
        [sys.executable, "-m", "specbench", "methods"],
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "lookahead      specbench-lookahead 1.0" in listed.stdout
