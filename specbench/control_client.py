"""The HTTP client of control traffic: readiness, metrics, configuration; never what is measured."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from functools import cache

import httpx


def control_client(
    timeout_s: float, *, base_url: str = "", headers: Mapping[str, str] | None = None
) -> httpx.AsyncClient:
    """Give a client that asks no proxy and trusts the authorities that httpx trusts."""
    return httpx.AsyncClient(
        base_url=base_url, headers=headers, trust_env=False, timeout=timeout_s, verify=_trusted()
    )


@cache
def _trusted() -> ssl.SSLContext:
    # Reading the authorities' certificates takes 30 ms, and a cell needs several clients.
    return httpx.create_ssl_context(trust_env=False)
