"""Where a server listens, from its base URL."""

from __future__ import annotations

from urllib.parse import urlsplit

import attrs

_PORTS = {"http": 80, "https": 443}


@attrs.frozen
class Address:
    """A host and port, and whether they speak TLS."""

    host: str
    """A name, or an IPv4 or IPv6 address without brackets."""
    port: int
    tls: bool = False

    @classmethod
    def of(cls, base_url: str) -> Address:
        """Give the address of a URL. Its path is part of each request, not of the address.

        Raises:
            ValueError: It is no http or https URL with a host.
        """
        parts = urlsplit(base_url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ValueError(f"no http or https URL: {base_url}")
        return cls(parts.hostname, parts.port or _PORTS[parts.scheme], parts.scheme == "https")
