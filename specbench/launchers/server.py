"""A server that answers, however it came to life."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import anyio
import attrs

from specbench.methods import Command
from specbench.proxy import Proxy


@attrs.define(kw_only=True)
class Server:
    """A server in service. `exit_code` is known once one that we started is gone."""

    base_url: str
    """Where it answers, without a slash at the end."""
    metrics_url: str | None
    """Where its counters are; None when nobody tells them."""
    model: str
    """What requests call the model."""
    headers: Mapping[str, str] = attrs.field(factory=dict)
    """Headers that every request needs, such as an authorization."""
    proxy: Proxy | None = None
    """The HTTP proxy on the way to it and to its counters."""
    command: Command | None = None
    """How we started it; None for one that was running already."""
    pid: int | None = None
    exit_code: int | None = None
    ended: anyio.Event = attrs.field(factory=anyio.Event)

    def request_target(self, path: str) -> str:
        """Give what a request line names: a path; for a proxy the whole URL (RFC 9112, 3.2.2)."""
        return self.base_url + path if self._forwarding else urlsplit(self.base_url).path + path

    def request_headers(self) -> Mapping[str, str]:
        """Give the headers of a request that we write ourselves, those for a proxy included."""
        return {**self.headers, **(self._forwarding.headers if self._forwarding else {})}

    @property
    def _forwarding(self) -> Proxy | None:
        """The proxy that reads each request. Under TLS it only passes bytes on."""
        return None if urlsplit(self.base_url).scheme == "https" else self.proxy
