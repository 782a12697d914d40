"""The least HTTP/1.1 server that can write 25,000 events a second and misbehave on purpose.

A web framework wakes a task for every event and hides the socket; here a step writes straight to
the transports of its requests (docs/decisions/0040-the-simulated-server-speaks-http-itself.md).
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from http import HTTPStatus

import attrs
import httptools

JSON = "application/json"
STREAM = "text/event-stream; charset=utf-8\r\ncache-control: no-store"
CLOSING = "connection: close\r\n"


@attrs.frozen(kw_only=True)
class HttpRequest:
    """One request, whole."""

    method: str
    path: str
    """Without the query."""
    headers: dict[str, str]
    """By lower-case name."""
    body: bytes


Handler = Callable[[HttpRequest, "Reply"], None]


class Reply:
    """The answer to one request: whole, or a head and chunks.

    What is to be sent is made first (`answer`, `begin`, `chunk`) and sent later, at its instant.
    """

    def __init__(self, transport: asyncio.Transport, *, keep_alive: bool) -> None:
        self._transport = transport
        self._keep_alive = keep_alive
        self.on_lost: Callable[[], None] = lambda: None
        """Called when the client goes away before the end."""
        self.ended = False

    def answer(self, status: int, body: bytes, content_type: str = JSON) -> bytes:
        """Give a whole answer as bytes."""
        return self._head(status, content_type, f"content-length: {len(body)}") + body

    def begin(self) -> bytes:
        """Give the head of a stream of events as bytes."""
        return self._head(200, STREAM, "transfer-encoding: chunked")

    def send(self, data: bytes) -> None:
        """Write bytes that were made before."""
        self._transport.write(data)

    def end(self, data: bytes = b"") -> None:
        """Write the last bytes, and close the connection if its client asked for that."""
        if data:
            self._transport.write(data)
        self.ended = True
        if not self._keep_alive:
            self._transport.close()

    def _head(self, status: int, content_type: str, length: str) -> bytes:
        closing = "" if self._keep_alive else CLOSING
        return (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\n"
            f"content-type: {content_type}\r\n{length}\r\n{closing}\r\n"
        ).encode()

    def reset(self) -> None:
        """Break the connection, as a crash would."""
        handle = self._transport.get_extra_info("socket")
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()
        self.ended = True


def chunk(events: bytes, *, last: bool = False) -> bytes:
    """Frame a piece of a stream."""
    end = b"0\r\n\r\n" if last else b""
    return b"%x\r\n%b\r\n%b" % (len(events), events, end)


class HttpConnection(asyncio.Protocol):
    """One kept-alive connection. Requests on it are answered one after another."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpRequestParser(self)
        self._reply: Reply | None = None
        self._path, self._headers, self._body = "", dict[str, str](), bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection."""
        assert isinstance(transport, asyncio.Transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Parse what arrived; what is no HTTP closes the connection."""
        assert self._transport is not None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Tell the request in flight that its client is gone."""
        if self._reply is not None and not self._reply.ended:
            self._reply.on_lost()

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._path, self._headers, self._body = "", {}, bytearray()

    def on_url(self, url: bytes) -> None:
        """Take a piece of the request's path."""
        self._path += url.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._body += body

    def on_message_complete(self) -> None:
        """Hand the request on."""
        assert self._transport is not None
        self._reply = Reply(self._transport, keep_alive=self._parser.should_keep_alive())
        request = HttpRequest(
            method=self._parser.get_method().decode(),
            path=self._path.partition("?")[0],
            headers=self._headers,
            body=bytes(self._body),
        )
        self._handler(request, self._reply)
