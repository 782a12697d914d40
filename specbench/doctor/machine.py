"""What this machine has for measuring, whatever the experiment.

Nothing is left behind: a probe file is removed, and the server that is started ends here.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Protocol

import anyio

from specbench.doctor.finding import Finding
from specbench.engines.known import ENGINES
from specbench.errors import DeploymentError
from specbench.experiment.model import Target
from specbench.launchers.local import free_port, serving
from specbench.launchers.readiness import until_ready
from specbench.methods import Launch
from specbench.observe.provenance import Gpu, gpus
from specbench.traffic.limits import COARSEST_CLOCK_S, SPARE_FILES

OLDEST_PYTHON = (3, 11)
GIB = 2**30
LEAST_DISK_GIB = 1.0
SPARE_DISK_GIB = 10.0
"""Evidence is small, but a server compiles into the scratch folder anew at every launch."""
USUAL_CONCURRENCY = 256
BUSY_MIB = 1024
"""Memory in use, in MiB, above which somebody works on a GPU. Drivers and displays take less."""
SERVER_TIMEOUT_S = 30.0
PR_GET_CHILD_SUBREAPER = 37


class Clock(Protocol):
    """What `time.get_clock_info` says of a clock. Its resolution is in seconds."""

    implementation: str
    monotonic: bool
    resolution: float


def machine_findings(runs: Path, concurrency: int | None = None) -> Iterator[Finding]:
    """Look at this machine.

    `runs` is the folder of raw runs, which need not exist. `concurrency` is the most requests in
    flight that an experiment asks for, where there is one.
    """
    yield python_finding(sys.version_info[:3])
    yield from library_findings(_required())
    yield clock_finding(time.get_clock_info("perf_counter"))
    yield files_finding(resource.getrlimit(resource.RLIMIT_NOFILE)[0], concurrency)
    for name, place in (("runs disk", runs), ("scratch disk", Path(tempfile.gettempdir()))):
        yield disk_finding(name, place, shutil.disk_usage(_existing(place)).free)
    yield lock_finding(_existing(runs))
    yield port_finding()
    yield guard_finding(adopts=_can_adopt())
    yield anyio.run(server_finding)
    yield from gpu_findings(gpus(), tool=shutil.which("nvidia-smi"))


def python_finding(running: tuple[int, ...]) -> Finding:
    """Judge our own Python."""
    said = ".".join(map(str, running))
    if running < OLDEST_PYTHON:
        return Finding("python", "fail", said, "install specbench with Python 3.11 or newer")
    return Finding("python", "ok", f"{said} at {sys.executable}")


def library_findings(required: Sequence[str] | None) -> Iterator[Finding]:
    """Judge libraries, each required as `name>=version`; those of extras are left out.

    None stands for a specbench that is not installed, whose requirements nobody states.
    """
    if required is None:
        said = "specbench is imported from a folder, not installed: what it requires is unknown"
        yield Finding("libraries", "fail", said, "pip install -e FOLDER")
        return
    good = []
    for line in required:
        match = re.match(r"([A-Za-z0-9._-]+)(?:\s*>=\s*([\d.]+))?", line)
        if match is None or "extra ==" in line:
            continue
        name, least = match[1], match[2] or "0"
        here = _version_of(name)
        if here is None or _numbers(here) < _numbers(least):
            said = f"{name} is {here}" if here else f"{name} is not installed"
            yield Finding("libraries", "fail", said, f"pip install '{name}>={least}'")
        else:
            good.append(f"{name} {here}")
    yield Finding("libraries", "ok", ", ".join(good))


def clock_finding(clock: Clock) -> Finding:
    """Judge the clock that stamps events."""
    said = f"{clock.implementation} resolves {clock.resolution:g} s"
    if not clock.monotonic or clock.resolution > COARSEST_CLOCK_S:
        remedy = f"measure where a monotonic clock resolves {COARSEST_CLOCK_S:g} s or finer"
        return Finding("clock", "fail", said, remedy)
    return Finding("clock", "ok", said)


def files_finding(allowed: int, concurrency: int | None) -> Finding:
    """Judge how many files may be open: every request in flight takes one."""
    if allowed == resource.RLIM_INFINITY:
        return Finding("open files", "ok", "no limit")
    most = allowed - SPARE_FILES
    said = f"{allowed} allowed: enough for {max(most, 0)} requests in flight"
    if most < (concurrency or 1):
        return Finding("open files", "fail", said, f"ulimit -n {(concurrency or 1) + SPARE_FILES}")
    if concurrency is None and most < USUAL_CONCURRENCY:
        return Finding("open files", "warn", said, f"ulimit -n {USUAL_CONCURRENCY + SPARE_FILES}")
    return Finding("open files", "ok", said)


def disk_finding(name: str, place: Path, free_bytes: int) -> Finding:
    """Judge the free space for a folder."""
    free_gib = free_bytes / GIB
    said = f"{free_gib:.1f} GiB free for {place}"
    if free_gib < SPARE_DISK_GIB:
        other = "--runs" if name == "runs disk" else "TMPDIR"
        remedy = f"make room, or name another folder by {other}"
        return Finding(name, "fail" if free_gib < LEAST_DISK_GIB else "warn", said, remedy)
    return Finding(name, "ok", said)


def lock_finding(folder: Path) -> Finding:
    """Judge whether a lock on a file in a folder keeps a second specbench out."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".specbench-doctor-") as probe:
            fcntl.flock(probe, fcntl.LOCK_EX | fcntl.LOCK_NB)
            held = _is_locked(Path(probe.name))
    except OSError as error:
        said = f"no file can be written and locked in {folder}: {error.strerror}"
        return Finding("lock", "fail", said, "name a folder of a local disk by --runs")
    if not held:
        remedy = "start only one run at a time there, or name a folder of a local disk by --runs"
        return Finding("lock", "warn", f"locks in {folder} keep nobody out", remedy)
    return Finding("lock", "ok", f"files in {folder} can be locked")


def port_finding() -> Finding:
    """Judge whether a server could get a port of loopback."""
    try:
        return Finding("port", "ok", f"127.0.0.1:{free_port()} is free")
    except OSError as error:
        said = f"no port of 127.0.0.1 can be bound: {error.strerror}"
        return Finding("port", "fail", said, "bring loopback up: ip link set lo up")


def guard_finding(*, adopts: bool) -> Finding:
    """Judge whether the guard can end what a server leaves behind."""
    if adopts:
        return Finding("guard", "ok", "prctl: no server outlives its run, nor does its family")
    said = "no prctl: what leaves a server's process group may outlive its run"
    return Finding("guard", "warn", said, "measure on Linux, or look for left processes")


async def server_finding() -> Finding:
    """Start the simulated server under its guard and judge whether it answers over loopback.

    It imports what we import, from where we do: what is judged is this machine, and a server
    inherits no PYTHONPATH.
    """
    engine = ENGINES["simulated"]
    target = Target(engine=engine.name, model="toy", env={"PYTHONPATH": _import_path()})
    command = engine.command(target, Launch(), sys.executable)
    with tempfile.TemporaryDirectory(prefix="specbench-doctor-") as folder:
        log = Path(folder) / "launch.log"
        try:
            async with serving(command, log) as server:
                took_s = await until_ready(
                    server,
                    path=engine.chat_path,
                    timeout_s=SERVER_TIMEOUT_S,
                )
        except (DeploymentError, OSError) as error:
            text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
            last = text.strip().splitlines()[-1:] or ["nothing in its log"]
            remedy = "let processes of this user connect to 127.0.0.1"
            return Finding("server", "fail", f"{error}: {last[0]}", remedy)
    return Finding("server", "ok", f"a simulated server answered after {took_s:.1f} s")


def gpu_findings(found: Sequence[Gpu], *, tool: str | None) -> Iterator[Finding]:
    """Judge the GPUs: one that others use gives no honest times. `tool` is nvidia-smi's path."""
    if not found and tool is None:
        yield Finding("gpu", "ok", "no nvidia-smi here: engines run on the CPU")
    elif not found:
        remedy = "run nvidia-smi and mend what it says; until then engines run on the CPU"
        yield Finding("gpu", "warn", f"{tool} names no GPU", remedy)
    for gpu in found:
        said = f"{gpu.name}: {_shown(gpu.used_mib)} of {_shown(gpu.total_mib)} MiB in use"
        if gpu.pids or (gpu.used_mib or 0) > BUSY_MIB:
            holders = ", ".join(map(str, gpu.pids)) or "unknown, perhaps of another container"
            remedy = "wait for them, or choose other GPUs by CUDA_VISIBLE_DEVICES"
            yield Finding(f"gpu {gpu.index}", "warn", f"{said} by pids {holders}", remedy)
        else:
            yield Finding(f"gpu {gpu.index}", "ok", said)


def _existing(place: Path) -> Path:
    """Give a folder, or the nearest one above it that exists."""
    path = place.absolute()
    return next(item for item in (path, *path.parents) if item.is_dir())


def _is_locked(path: Path) -> bool:
    with path.open("ab") as second:
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        return False


def _can_adopt() -> bool:
    """Tell whether a process here can adopt orphans, as the guard does."""
    try:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except (OSError, AttributeError):
        return False
    return bool(prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(ctypes.c_int()), 0, 0, 0) == 0)


def _import_path() -> str:
    """Give our own import path as a PYTHONPATH that holds in any folder."""
    return os.pathsep.join(str(Path(place).absolute()) for place in sys.path)


def _required() -> Sequence[str] | None:
    """Give what specbench requires; None where it is not installed."""
    try:
        return requires("specbench") or ()
    except PackageNotFoundError:
        return None


def _version_of(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _numbers(text: str) -> tuple[int, ...]:
    """Give the leading numbers of a version, such as (2, 1, 0) of `2.1.0rc1`."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, match[0].split("."))) if match else ()


def _shown(mib: int | None) -> str:
    return "?" if mib is None else str(mib)
