"""The HTTP client of control traffic: readiness, metrics, configuration; never what is measured."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from functools import cache

import httpx

from specbench.proxy import Proxy


def control_client(
    timeout_s: float,
    *,
    base_url: str = "",
    headers: Mapping[str, str] | None = None,
    proxy: Proxy | None = None,
) -> httpx.AsyncClient:
    """Give a client that trusts the authorities that httpx trusts.

    It asks no proxy but the one that is given, whatever the environment names.
    """
    return httpx.AsyncClient(
        base_url=base_url,
        headers=headers,
        proxy=None if proxy is None else httpx.Proxy(proxy.url, headers=dict(proxy.headers)),
        trust_env=False,
        timeout=timeout_s,
        verify=_trusted(),
    )


@cache
def _trusted() -> ssl.SSLContext:
    # Reading the authorities' certificates takes 30 ms, and a cell needs several clients.
    return httpx.create_ssl_context(trust_env=False)
