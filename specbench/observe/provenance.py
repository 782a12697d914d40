"""Where a run came from: this program, this machine, these files."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, distributions, version
from importlib.resources import files
from pathlib import Path
from typing import Any

import attrs

ENGINE_LIBRARIES = ("torch", "transformers", "tokenizers", "triton", "flashinfer-python")
LIBRARIES = ("anyio", "attrs", "duckdb", "httptools", "msgspec", "numpy", "pyarrow", "scipy")

# The working folder, first in the path of -c, would give the packages of a checkout.
_ASK_INTERPRETER = """
import json, sys
sys.path.pop(0)
from importlib.metadata import PackageNotFoundError, version
found = {}
for name in sys.argv[1:]:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        pass
json.dump({"python": sys.version.split()[0], "packages": found}, sys.stdout)
"""


@attrs.frozen(kw_only=True)
class Gpu:
    """One GPU as nvidia-smi sees it now."""

    index: int
    name: str
    used_mib: int | None
    """Memory in use, in MiB. None where the GPU does not say."""
    total_mib: int | None
    """Memory of its own, in MiB. None where the GPU does not say."""
    pids: tuple[int, ...]
    """Processes that compute on it. Those of other containers may be missing or have other ids."""


@attrs.frozen(kw_only=True)
class Interpreter:
    """A Python that was started once and asked what it has."""

    version: str
    packages: dict[str, str]
    """Versions of the packages that were asked for and are there."""


def machine() -> dict[str, Any]:
    """Give host, processor, memory and accelerators."""
    return {
        "host": platform.node(),
        "platform": platform.platform(),
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "gpus": _gpus(),
    }


def software() -> dict[str, Any]:
    """Give the versions of specbench, its revision, Python and the libraries that measure."""
    return {
        "specbench": version("specbench"),
        "git": _git(Path(str(files("specbench")))),
        "python": sys.version.split()[0],
        "libraries": {name: _version_of(name) for name in LIBRARIES},
    }


def engine_version(python: str | None, names: Iterable[str], first: str = "") -> str | None:
    """Give the engine's version from an interpreter's package metadata, starting no process.

    The site-packages beside `bin/python` are read, and before them the folders of `first`, a
    server's PYTHONPATH; None when nothing is found there.
    """
    found = packages(python, names, first)
    return next((found[name] for name in names if name in found), None)


def packages(python: str | None, names: Iterable[str], first: str = "") -> dict[str, str]:
    """Give the versions of those packages that an interpreter (ours, when None) has.

    `first` is a server's PYTHONPATH: what lies there hides what the interpreter has.
    """
    names = tuple(names)
    searched = first.split(os.pathsep) if first else []
    if python is not None:
        root = Path(python).absolute().parent.parent
        searched += [str(path) for path in root.glob("lib/python3*/site-packages")]
    installed = {
        (item.metadata["Name"] or "").lower(): item.version
        for item in distributions(path=searched[::-1])
    }
    if python is None:
        installed = {name: found for name in names if (found := _version_of(name))} | installed
    return {name: installed[name] for name in names if name in installed}


def interpreter(python: str, names: Iterable[str], first: str = "") -> Interpreter | None:
    """Start an interpreter and ask for its version and those packages. None: it cannot be run.

    Unlike `packages`, this sees every folder that the interpreter searches. `first` is a server's
    PYTHONPATH: of our own PYTHON* variables servers inherit none.
    """
    environment = {name: value for name, value in os.environ.items() if name[:6] != "PYTHON"}
    if first:
        environment["PYTHONPATH"] = first
    said = _run([python, "-c", _ASK_INTERPRETER, *names], environment)
    try:
        answer = json.loads(said or "")
        return Interpreter(version=answer["python"], packages=answer["packages"])
    except (ValueError, TypeError, KeyError):
        return None


def gpus() -> tuple[Gpu, ...]:
    """Give the GPUs with the memory in use and who uses it; none where nvidia-smi names none."""
    fields = "--query-gpu=uuid,index,memory.used,memory.total,name"
    listed = _run(["nvidia-smi", fields, "--format=csv,noheader,nounits"])
    apps = _run(["nvidia-smi", "--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader"])
    return parsed_gpus(listed or "", apps or "")


def parsed_gpus(listed: str, apps: str) -> tuple[Gpu, ...]:
    """Give the GPUs of nvidia-smi's two lists: uuid, index, used, total, name; and uuid, pid."""
    # An app line without a GPU or a number, such as `[N/A]`, names no process.
    holders = [line.split(", ") for line in apps.splitlines()]
    found = []
    for line in listed.splitlines():
        values = line.split(", ", 4)
        if len(values) < 5 or not values[1].isdigit():  # noqa: PLR2004 - the fields asked for
            continue
        uuid, index, used, total, name = values
        pids = sorted({int(app[1]) for app in holders if app[0] == uuid and app[1].isdigit()})
        found.append(
            Gpu(
                index=int(index),
                name=name,
                used_mib=int(used) if used.isdigit() else None,
                total_mib=int(total) if total.isdigit() else None,
                pids=tuple(pids),
            )
        )
    return tuple(found)


def _version_of(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor()


def _gpus() -> list[str]:
    """Give the GPUs and their driver as nvidia-smi names them; none where there is no such tool."""
    if not shutil.which("nvidia-smi"):
        return []
    fields = "--query-gpu=name,memory.total,driver_version"
    said = _run(["nvidia-smi", fields, "--format=csv,noheader"])
    return said.splitlines() if said else []


def _git(folder: Path) -> str | None:
    """Give the revision of the folder's checkout, marked when it has changes."""
    revision = _run(["git", "-C", str(folder), "rev-parse", "HEAD"])
    if not revision:
        return None
    dirty = _run(["git", "-C", str(folder), "status", "--porcelain", "--untracked-files=no"])
    return f"{revision}-dirty" if dirty else revision


def _run(argv: list[str], environment: Mapping[str, str] | None = None) -> str | None:
    try:
        done = subprocess.run(
            argv, env=environment, capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
