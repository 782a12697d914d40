"""Where a server listens, from its base URL, and where to connect to reach it."""

from __future__ import annotations

from urllib.parse import urlsplit

import attrs

from specbench.proxy import Proxy

_PORTS = {"http": 80, "https": 443}


@attrs.frozen
class Address:
    """A host and port, whether they speak TLS, and the proxy on the way to them."""

    host: str
    """A name, or an IPv4 or IPv6 address without brackets."""
    port: int
    tls: bool = False
    proxy: Proxy | None = None

    @classmethod
    def of(cls, base_url: str, proxy: Proxy | None = None) -> Address:
        """Give the address of a URL. Its path is part of each request, not of the address.

        Raises:
            ValueError: It is no http or https URL with a host.
        """
        parts = urlsplit(base_url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError(f"no http or https URL: {base_url}")
        port = parts.port or _PORTS[parts.scheme]
        return cls(parts.hostname, port, parts.scheme == "https", proxy)

    @property
    def hop(self) -> tuple[str, int]:
        """The host and port to connect to: the proxy's where there is one."""
        return (self.proxy.host, self.proxy.port) if self.proxy else (self.host, self.port)
