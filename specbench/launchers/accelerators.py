"""Before a launch its accelerators must be free: who shares one measures the neighbour."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

from specbench.errors import DeploymentError
from specbench.methods import Command

VISIBLE = "CUDA_VISIBLE_DEVICES"
SMI_TIMEOUT_S = 20


def require_free_accelerators(command: Command) -> None:
    """Refuse a launch on a GPU on which another process computes.

    Raises:
        DeploymentError: kind `accelerator_busy`, naming the GPU and the process.
    """
    visible = command.environment.get(VISIBLE, os.environ.get(VISIBLE))
    busy = list(holders(_listed("gpu=index,uuid"), _listed("compute-apps=gpu_uuid,pid"), visible))
    if busy:
        shown = "; ".join(f"GPU {index}: pid {pid}" for index, pid in busy)
        raise DeploymentError(
            f"another process computes on {shown}",
            kind="accelerator_busy",
            hint=f"end it, or leave that GPU out with {VISIBLE} in target.env",
        )


def holders(gpus: str, apps: str, visible: str | None) -> Iterator[tuple[str, int]]:
    """Give the index of every GPU that is used, with the process that uses it.

    `gpus` and `apps` are nvidia-smi's lists of `index, uuid` and `uuid, pid`; `visible` is
    CUDA_VISIBLE_DEVICES, whose indexes and uuids leave the others out.
    """
    wanted = None if visible is None else [name.strip() for name in visible.split(",")]
    indexes = {uuid: index for index, uuid in _pairs(gpus)}
    for uuid, pid in _pairs(apps):
        index = indexes.get(uuid)
        if index is None or not pid.isdigit():
            continue
        if wanted is None or index in wanted or uuid in wanted:
            yield index, int(pid)


def _pairs(listed: str) -> Iterator[tuple[str, str]]:
    for line in listed.splitlines():
        first, _, second = line.partition(",")
        yield first.strip(), second.strip()


def _listed(query: str) -> str:
    """Give one of nvidia-smi's lists; nothing where there is no such tool."""
    argv = ["nvidia-smi", f"--query-{query}", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=SMI_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout
