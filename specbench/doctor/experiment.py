"""What this machine has of what one experiment names."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from specbench.doctor.finding import Finding
from specbench.engines.contract import Engine
from specbench.engines.known import ENGINES
from specbench.errors import ExperimentError
from specbench.experiment.model import Target
from specbench.experiment.read import ReadExperiment
from specbench.methods import Method
from specbench.observe.provenance import engine_version, gpus, interpreter

MIB = 2**20
CONFIGURATIONS = ("config.json", "params.json")
"""Files by which an engine knows an architecture: Hugging Face's and Mistral's."""
WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")


def refused_findings(error: ExperimentError) -> Iterator[Finding]:
    """Give what `specbench check` refuses."""
    for problem in error.problems:
        said = f"{problem.where}: {problem.message}" if problem.where else problem.message
        yield Finding("experiment", "fail", said, problem.hint)


def experiment_findings(
    read: ReadExperiment, methods: Mapping[str, Method[Any]]
) -> Iterator[Finding]:
    """Look for everything that an experiment without problems names."""
    experiment = read.experiment
    target = experiment.target
    engine = ENGINES[target.engine]
    yield Finding("experiment", "ok", f"{read.path}: {len(experiment.arms)} arms, no problem found")
    yield from variable_findings(read.unset)
    if not _is_open(experiment.launcher.python or ""):
        yield from engine_findings(target, engine, experiment.launcher.python)
    if engine.simulated:
        yield Finding("checkpoints", "ok", "the simulated engine needs none")
        return
    drafters = (methods[arm.method].assets(arm.options) for arm in experiment.arms)
    named = dict.fromkeys([target.model, *(path for assets in drafters for path in assets)])
    yield from (checkpoint_finding(path) for path in named if not _is_open(path))
    yield from parallel_findings(target.tensor_parallel, len(gpus()))


def variable_findings(unset: tuple[str, ...]) -> Iterator[Finding]:
    """Judge the environment variables that an experiment names."""
    for name in unset:
        yield Finding("variables", "fail", f"{name} is not set", f"export {name}=...")
    if not unset:
        yield Finding("variables", "ok", "none is unset")


def engine_findings(target: Target, engine: Engine, python: str | None) -> Iterator[Finding]:
    """Judge the interpreter (ours when None) by starting it once, and the engine in it."""
    if python is not None and not (Path(python).is_absolute() and os.access(python, os.X_OK)):
        said = f"{python} is no absolute path of a program"
        yield Finding("interpreter", "fail", said, "mend launcher.python")
        return
    path = python or sys.executable
    first = target.env.get("PYTHONPATH", "")
    asked = interpreter(path, engine.distributions, first)
    if asked is None:
        yield Finding("interpreter", "fail", f"{path} cannot be run", "mend launcher.python")
        return
    yield Finding("interpreter", "ok", f"Python {asked.version} at {path}")
    found = next((asked.packages[n] for n in engine.distributions if n in asked.packages), None)
    planned = engine_version(python, engine.distributions, first)
    yield engine_finding(target, engine, found=found, planned=planned)


def engine_finding(
    target: Target, engine: Engine, *, found: str | None, planned: str | None
) -> Finding:
    """Judge the engine's version: as its interpreter gives it, and as a plan reads it."""
    if not engine.distributions:
        return Finding("engine", "ok", f"{engine.name}, as {target.version or engine.newest}")
    if found is None:
        remedy = f"install {' or '.join(engine.distributions)} there, or mend launcher.python"
        return Finding("engine", "fail", f"{engine.name} is not in that interpreter", remedy)
    said = f"{engine.name} {found}"
    if target.version is not None and _release(target.version) != _release(found):
        said = f"{said}, but target.version is {target.version}"
        return Finding("engine", "warn", said, f"write version: {found}, or leave it out")
    if target.version is None and planned is None:
        said = f"{said}, in a folder that plans do not read"
        return Finding("engine", "warn", said, f"write target.version: {found}")
    return Finding("engine", "ok", said)


def checkpoint_finding(path: str) -> Finding:
    """Judge a model by its path or hub id. A hub id is the engine's business."""
    place = Path(path)
    if not place.exists():
        if path.startswith(("/", ".", "~")):
            return Finding("checkpoint", "fail", f"{path} does not exist", "write its whole path")
        return Finding("checkpoint", "ok", f"{path} is a hub id, which the engine resolves")
    if not place.is_absolute():
        said = f"{path} is relative, and a server runs in a folder of its own"
        return Finding("checkpoint", "fail", said, f"write {place.absolute()}")
    return _folder_finding(place) if place.is_dir() else Finding("checkpoint", "ok", path)


def parallel_findings(tensor_parallel: int, count: int) -> Iterator[Finding]:
    """Judge the accelerators that are asked for, where nvidia-smi names some."""
    if 0 < count < tensor_parallel:
        said = f"tensor_parallel is {tensor_parallel}, and nvidia-smi names {count} GPUs"
        yield Finding("accelerators", "fail", said, f"write tensor_parallel: {count} or less")


def _folder_finding(folder: Path) -> Finding:
    if not any((folder / name).is_file() for name in CONFIGURATIONS):
        remedy = "name the folder that holds it"
        return Finding("checkpoint", "warn", f"{folder} has no {CONFIGURATIONS[0]}", remedy)
    weights = [item for item in folder.iterdir() if item.suffix in WEIGHTS]
    # A link that leads nowhere, as after a download that broke off, is no file.
    if not weights or not all(item.is_file() for item in weights):
        return Finding("checkpoint", "warn", f"{folder} lacks weights", "copy or download it whole")
    size_mib = sum(item.stat().st_size for item in weights) / MIB
    return Finding("checkpoint", "ok", f"{folder}: {size_mib:,.0f} MiB of weights")


def _is_open(text: str) -> bool:
    """Tell whether an unset variable stands in a text: then the variable is what is missing."""
    return "${" in text


def _release(version: str) -> str:
    """Give a version without its build, such as `+cpu`."""
    return version.partition("+")[0]
