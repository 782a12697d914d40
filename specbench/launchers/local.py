"""The launcher `local`: a server as a process of this machine, under its guard."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from specbench.errors import DeploymentError
from specbench.launchers import guard
from specbench.launchers.server import Server
from specbench.methods import Command

# HOME and TMPDIR, because model hubs and compilers look for their caches there.
INHERITED = ("PATH", "HOME", "TMPDIR")
INHERITED_PREFIXES = ("CUDA_", "HF_", "LD_")
GRACE_S = 20.0
LONGEST_LINE = 4096
"""Bytes of a line that the guard says."""


@asynccontextmanager
async def serving(
    command: Command,
    log: Path,
    *,
    model: str = "target",
    metrics_path: str = "/metrics",
    grace_s: float = GRACE_S,
) -> AsyncIterator[Server]:
    """Start a server and end it, with its whole group, when the block is left.

    `log` is an absolute path: the server runs in a scratch folder of its own. It has `grace_s` to
    end by itself, then it is killed.

    Raises:
        DeploymentError: The command itself cannot be started.
    """
    scratch = Path(tempfile.mkdtemp(prefix="specbench-"))
    port = free_port()
    filled = command.filled(port=port, scratch=str(scratch))
    order = {
        "argv": filled.argv,
        "environment": environment(filled),
        "cwd": str(scratch),
        "log": str(log),
        "grace_s": grace_s,
    }
    with log.open("ab") as errors:
        process = await anyio.open_process(
            [sys.executable, "-I", "-S", guard.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    assert process.stdout
    said = BufferedByteReceiveStream(process.stdout)
    try:
        base_url = f"http://127.0.0.1:{port}"
        server = Server(
            base_url=base_url,
            metrics_url=f"{base_url}{metrics_path}",
            model=model,
            command=filled,
            pid=await _started(process, said, order),
        )
        # A task group would wrap every exception of the block into a group.
        watch = asyncio.create_task(_watch(said, server))
        try:
            yield server
        finally:
            with anyio.CancelScope(shield=True):
                await _stop(process, server, port)
                await watch
    finally:
        with anyio.CancelScope(shield=True):
            await _close(process)
        shutil.rmtree(scratch, ignore_errors=True)


def environment(command: Command) -> dict[str, str]:
    """Give a server's whole environment: a few names of ours, and what the command asks for."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in INHERITED or name.startswith(INHERITED_PREFIXES)
    }
    return {**inherited, **command.environment}


def free_port() -> int:
    """Give a port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Tell whether a port of loopback can be bound."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


async def _started(
    process: Process, said: BufferedByteReceiveStream, order: dict[str, object]
) -> int:
    assert process.stdin
    await process.stdin.send(json.dumps(order).encode() + b"\n")
    try:
        answer = json.loads(await said.receive_until(b"\n", LONGEST_LINE))
    except (anyio.IncompleteRead, anyio.EndOfStream):
        argv = order["argv"]
        raise DeploymentError(
            f"cannot start {argv}: see {order['log']}", kind="bad_command"
        ) from None
    return int(answer["pid"])


async def _watch(said: BufferedByteReceiveStream, server: Server) -> None:
    """Note the server's exit code when the guard reports it."""
    try:
        server.exit_code = int(json.loads(await said.receive_until(b"\n", LONGEST_LINE))["exit"])
    except (anyio.IncompleteRead, anyio.EndOfStream):
        server.exit_code = -signal.SIGKILL
    server.ended.set()


async def _stop(process: Process, server: Server, port: int) -> None:
    """Close the guard's input and wait until the server is gone and its port is free."""
    assert process.stdin
    await process.stdin.aclose()
    await server.ended.wait()
    with anyio.move_on_after(GRACE_S):
        while not is_free(port):  # noqa: ASYNC110 - a port tells nobody when it is free
            await anyio.sleep(0.02)


async def _close(process: Process) -> None:
    if process.stdin:
        await process.stdin.aclose()
    await process.wait()
    if process.stdout:
        await process.stdout.aclose()
