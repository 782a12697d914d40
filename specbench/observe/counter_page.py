"""The page of a server's counters, as a thread reads it while others measure."""

from __future__ import annotations

import http.client
import ssl
from urllib.parse import urlsplit

from specbench.proxy import Proxy

ANSWER_S = 5.0
"""Longest wait for one answer."""


class CounterPage:
    """Where the counters are: directly, or through an HTTP proxy."""

    def __init__(self, url: str, proxy: Proxy | None) -> None:
        self._url, self._parts, self._proxy = url, urlsplit(url), proxy
        # Once: reading the authorities' certificates takes 30 ms.
        self._trusted = ssl.create_default_context() if self._parts.scheme == "https" else None

    def text(self) -> str | None:
        """Give the page; None when there was no answer."""
        connection, headers, page = self._connection(), {}, self._parts.path or "/"
        if self._proxy and self._trusted:
            host = self._parts.hostname or ""
            connection.set_tunnel(host, self._parts.port or 443, self._proxy.headers)
        elif self._proxy:
            headers, page = dict(self._proxy.headers), self._url
        try:
            connection.request("GET", page, headers=headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
        except (OSError, http.client.HTTPException):
            return None
        finally:
            connection.close()
        return text if answer.status == http.client.OK else None

    def _connection(self) -> http.client.HTTPConnection:
        parts, proxy = self._parts, self._proxy
        host, port = (proxy.host, proxy.port) if proxy else (parts.hostname or "", parts.port)
        if self._trusted is None:
            return http.client.HTTPConnection(host, port, timeout=ANSWER_S)
        return http.client.HTTPSConnection(host, port, timeout=ANSWER_S, context=self._trusted)
