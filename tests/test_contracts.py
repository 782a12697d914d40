"""What holds between files: layers, schemas, documents, the built wheel."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import attrs
import click

from specbench import capture_facts, client_facts, errors, facts, hookspecs, log_facts, methods
from specbench.cli import cli
from specbench.experiment import load, model, prompt
from tests.conftest import ROOT

SOURCES = sorted([*(ROOT / "specbench").rglob("*.py"), *(ROOT / "method_plugins").rglob("*.py")])


def test_imports_keep_the_layers() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_only_four_places_open_sockets_or_processes() -> None:
    opening = re.compile(
        r"^\s*(?:import|from) (?:socket|subprocess|asyncio|httpx|uvicorn)\b", re.MULTILINE
    )
    # stopping.py asks the event loop for signals, and opens nothing. control_client.py makes the
    # clients that launchers and observe open.
    allowed = (
        "launchers",
        "traffic",
        "observe",
        "engines/simulated",
        "stopping.py",
        "control_client.py",
    )
    found = [
        path.relative_to(ROOT / "specbench").as_posix()
        for path in SOURCES
        if path.is_relative_to(ROOT / "specbench") and opening.search(path.read_text())
    ]
    assert [name for name in found if not name.startswith(allowed)] == []


def test_no_file_grows_past_400_lines() -> None:
    assert [path.name for path in SOURCES if len(path.read_text().splitlines()) > 400] == []


def test_only_the_command_line_prints_and_exits() -> None:
    speaking = re.compile(r"\bprint\(|sys\.exit\(")
    found = [
        path.name
        for path in SOURCES
        if "cli" not in path.parts and re.search(r"(?<!\.)" + speaking.pattern, path.read_text())
    ]
    assert found == []


def test_every_public_name_has_a_docstring() -> None:
    for module in (
        capture_facts,
        client_facts,
        errors,
        facts,
        log_facts,
        methods,
        model,
        load,
        prompt,
        hookspecs,
    ):
        for name, thing in inspect.getmembers(module, inspect.isclass):
            if thing.__module__ == module.__name__ and not name.startswith("_"):
                assert (thing.__doc__ or "").strip(), name


def test_exit_codes_are_those_of_the_design() -> None:
    codes = {cls.__name__: cls.exit_code for cls in errors.SpecbenchError.__subclasses__()}
    assert codes == {
        "ExperimentError": 2,
        "PluginError": 3,
        "DeploymentError": 4,
        "MachineError": 5,
        "StoreError": 6,
    }


def test_the_glossary_explains_every_class_that_people_meet() -> None:
    text = (ROOT / "docs/glossary.md").read_text()
    for module in (capture_facts, client_facts, facts, log_facts, methods, model, load, prompt):
        for name, thing in inspect.getmembers(module, inspect.isclass):
            if thing.__module__ == module.__name__ and attrs.has(thing):
                assert f"`{name}`" in text, name


def commands(group: click.Group, prefix: str = "") -> list[str]:
    found = []
    for name, command in group.commands.items():
        inner = (
            commands(command, f"{prefix}{name} ")
            if isinstance(command, click.Group)
            else [f"{prefix}{name}"]
        )
        found += inner
    return found


def test_the_readme_names_every_command_and_no_other() -> None:
    text = (ROOT / "README.md").read_text()
    known = commands(cli)
    assert [name for name in known if f"specbench {name}" not in text] == []
    words = {name.split()[0] for name in known}
    used = set(
        re.findall(
            r"(?:^|bin/| )specbench ([a-z]+)",
            "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)),
            re.MULTILINE,
        )
    )
    assert used <= words


def test_files_that_documents_name_exist() -> None:
    for document in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), ROOT / "CONTRIBUTING.md"):
        for link in re.findall(r"\]\((?!http)([^)#]+)", document.read_text()):
            assert (document.parent / link).exists(), f"{document.name}: {link}"


def test_the_hook_is_documented_with_its_signature() -> None:
    text = (ROOT / "docs/plugins.md").read_text()
    hooks = [name for name, _ in inspect.getmembers(hookspecs, inspect.isfunction)]
    assert hooks == ["specbench_methods"]
    assert "def specbench_methods():" in text


def test_method_functions_are_documented() -> None:
    text = (ROOT / "docs/plugins.md").read_text()
    own = [
        name
        for name, thing in vars(methods.Method).items()
        if inspect.isfunction(thing) and not name.startswith("_")
    ]
    assert [name for name in own if name not in text] == []


def test_the_built_wheel_works_outside_the_checkout(tmp_path: Path) -> None:
    """Built and unpacked offline, with the dependencies that are here and nothing of the checkout."""
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "--quiet",
            "--no-index",
            "--no-deps",
            "--no-build-isolation",
            "--wheel-dir",
            tmp_path,
            ROOT,
        ],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
        names = archive.namelist()
    assert "specbench/store/schema.sql" in names
    assert "specbench/report/template.html" in names
    # An editable install puts these two on the path; the environment may lie inside the checkout.
    script = (
        "import sys; site, root = sys.argv[1:3]; del sys.argv[1:3]; "
        "sys.path[:] = [site, *(p for p in sys.path if p not in (root, root + '/method_plugins'))]; "
        "import specbench; print(specbench.__path__[0]); from specbench.cli import main; main()"
    )

    def outside(*arguments: str) -> str:
        command = [sys.executable, "-c", script, str(site), str(ROOT), *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        where, _, said = done.stdout.partition("\n")
        assert where.startswith(str(site))
        return said

    assert "eagle" in outside("methods")
    assert '"specbench experiment"' in outside("schema")
    assert "no problem found" in outside("check", str(ROOT / "specs/quickstart.yaml"))
