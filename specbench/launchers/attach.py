"""The launcher `attach`: a server that runs already, which we neither start nor stop.

What it does not tell stays unknown: without a log and a resolved configuration there is no audit,
without /metrics there is no acceptance.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from specbench.control_client import control_client
from specbench.errors import DeploymentError
from specbench.experiment.model import AttachedServer
from specbench.launchers.server import Server
from specbench.proxy import Proxy, proxy_secrets

LOOK_TIMEOUT_S = 30


@asynccontextmanager
async def attached(asked: AttachedServer, log: Path, metrics_path: str) -> AsyncIterator[Server]:
    """Give a running server for the length of the block, with its log as it stands copied to `log`.

    Raises:
        DeploymentError: It does not answer, or names no model.
    """
    base_url = asked.base_url.rstrip("/")
    headers, proxy = _headers(asked), _proxy(asked)
    if asked.log is not None:
        _copy_log(Path(asked.log), log)
    hint = "" if proxy else _unused_proxy(base_url)
    async with control_client(LOOK_TIMEOUT_S, headers=headers, proxy=proxy) as client:
        model = asked.model or await _first_model(client, base_url, hint)
        metrics_url = asked.metrics_url or f"{base_url}{metrics_path}"
        tells = await _answers(client, metrics_url)
    if asked.metrics_url is not None and not tells:
        raise DeploymentError(f"{metrics_url} gives no counters", kind="no_metrics")
    yield Server(
        base_url=base_url,
        metrics_url=metrics_url if tells else None,
        model=model,
        headers=headers,
        proxy=proxy,
    )


def _headers(asked: AttachedServer) -> Mapping[str, str]:
    if asked.api_key_env is None:
        return {}
    return {"Authorization": f"Bearer {os.environ[asked.api_key_env]}"}


def _proxy(asked: AttachedServer) -> Proxy | None:
    return None if asked.proxy_env is None else Proxy.of(os.environ[asked.proxy_env])


def attached_secrets(asked: AttachedServer) -> set[str]:
    """Give what a server is reached with and is kept nowhere: its key, its proxy."""
    key, proxy = (os.environ.get(name or "") for name in (asked.api_key_env, asked.proxy_env))
    return {*([key] if key else ()), *(proxy_secrets(proxy) if proxy else ())}


def _copy_log(source: Path, log: Path) -> None:
    try:
        shutil.copyfile(source, log)
    except OSError as error:
        raise DeploymentError(
            f"the log {source} cannot be read: {error.strerror}", kind="no_log"
        ) from error


async def _first_model(client: httpx.AsyncClient, base_url: str, hint: str) -> str:
    url = f"{base_url}/v1/models"
    try:
        answer = await client.get(url)
        answer.raise_for_status()
        return str(answer.json()["data"][0]["id"])
    except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
        said = str(error) or type(error).__name__
        raise DeploymentError(f"{url} names no model: {said}{hint}", kind="unreachable") from error


def _unused_proxy(url: str) -> str:
    """Say so where the environment names a proxy for a URL: only a spec has us go through it."""
    parts = urlsplit(url)
    if parts.scheme not in getproxies() or proxy_bypass(parts.hostname or ""):
        return ""
    return (
        f"; the environment names a proxy for {parts.scheme}, which is not used: write its "
        f"variable ({parts.scheme}_proxy) as the server's proxy_env, or measure where the server "
        "can be reached directly"
    )


async def _answers(client: httpx.AsyncClient, url: str) -> bool:
    try:
        return (await client.get(url)).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False
