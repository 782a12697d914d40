"""The HTTP proxy on the way to a server, from its URL. Pure."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from urllib.parse import SplitResult, unquote, urlsplit

import attrs


@attrs.frozen
class Proxy:
    """Where an HTTP proxy listens, and what it alone is told."""

    host: str
    port: int
    headers: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    """Proxy-Authorization where the URL holds credentials (RFC 7617); never meant for a server."""

    @classmethod
    def of(cls, url: str) -> Proxy:
        """Give the proxy of a URL, with or without credentials.

        Raises:
            ValueError: It is no http://host:port. The message does not repeat it.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host = port = None
        if not host or not port or parts.scheme != "http" or parts.path.strip("/") or parts.query:
            raise ValueError("no http://host:port URL of a proxy")
        token = _token(parts)
        return cls(host, port, {"Proxy-Authorization": f"Basic {token}"} if token else {})

    @property
    def url(self) -> str:
        """Its URL without credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


def proxy_secrets(url: str) -> set[str]:
    """Give what of a proxy's URL is kept nowhere: itself, its credentials, what is made of them."""
    parts = urlsplit(url)
    said = {parts.password or "", unquote(parts.password or ""), _token(parts)}
    return {url, url.rstrip("/"), parts.netloc.rpartition("@")[0], *said} - {""}


def _token(parts: SplitResult) -> str:
    """Give the credentials as Basic authorization tells them; empty without any."""
    if not parts.username:
        return ""
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return b64encode(pair.encode()).decode()
