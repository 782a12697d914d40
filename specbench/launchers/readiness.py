"""Readiness: a server is ready when it has answered a real short completion."""

from __future__ import annotations

import time

import anyio
import httpx

from specbench.control_client import control_client
from specbench.errors import DeploymentError
from specbench.launchers.server import Server

POLL_S = 0.1
_BODY = {
    "messages": [{"role": "user", "content": "Say yes."}],
    "max_tokens": 4,
    "temperature": 0,
}


async def until_ready(server: Server, *, path: str, timeout_s: float) -> float:
    """Wait for a first completion and give the seconds it took.

    Raises:
        DeploymentError: kind `exited` when the server ended first, `timeout` when it took too long.
            The caller reads the cause from the log.
    """
    started = time.monotonic()
    last = "no answer"
    async with control_client(
        60, base_url=server.base_url, headers=server.headers, proxy=server.proxy
    ) as client:
        while time.monotonic() - started < timeout_s:
            if server.ended.is_set():
                raise DeploymentError(
                    f"the server ended with code {server.exit_code} before it was ready",
                    kind="exited",
                )
            try:
                answer = await client.post(path, json={"model": server.model, **_BODY})
            except httpx.TransportError as error:
                last = type(error).__name__
            else:
                if answer.status_code == httpx.codes.OK:
                    return time.monotonic() - started
                last = f"HTTP {answer.status_code}: {answer.text[:200]}"
            with anyio.move_on_after(POLL_S):
                await server.ended.wait()
    raise DeploymentError(
        f"the server was not ready after {timeout_s:.0f} s; its last answer: {last}", kind="timeout"
    )
