"""The bytes of a response to an exchange: HTTP by httptools, events by msgspec."""

from __future__ import annotations

import httptools

from specbench.traffic.exchange import Exchange
from specbench.traffic.server_events import DONE, EventSplitter, decode

HTTP_OK = 200
_INTERIM = range(100, 200)
_LONGEST_BODY = 4096
"""Bytes of a body that is no stream which are kept to be told."""


class Response:
    """Parses one response as its bytes come. Both kinds of connection use it."""

    __slots__ = (
        "_body",
        "_delimited",
        "_encoding",
        "_events_in_read",
        "_exchange",
        "_kind",
        "_parser",
        "_splitter",
        "_stamp_ns",
        "done",
    )

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._parser = httptools.HttpResponseParser(self)
        self._splitter = EventSplitter()
        self._body = bytearray()
        self._kind = self._encoding = ""
        self._delimited = False
        self._stamp_ns = 0
        self._events_in_read = 0
        self.done = False
        """The response is whole, or is no HTTP."""

    def feed(self, data: bytes | memoryview, stamp_ns: int) -> bool:
        """Take one read in, and tell whether it carried anything of the output."""
        self._stamp_ns = stamp_ns
        self._events_in_read = 0
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._exchange.fail("stream_error", f"malformed HTTP: {error}")
            self.done = True
        return self._events_in_read > 0

    @property
    def begun(self) -> bool:
        """Whether any of it has arrived."""
        return self._stamp_ns > 0

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection can carry another request."""
        return self._delimited and bool(self._parser.should_keep_alive())

    def lose(self, why: str) -> None:
        """Take in that the connection is gone."""
        if self._exchange.http_status is not None and not self._delimited:
            # A body without length ends with its connection (RFC 9112, section 6.3).
            self.on_message_complete()
        else:
            self._exchange.fail("connection_lost", why)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep what decides how the body is read (httptools)."""
        match name.lower():
            case b"content-type":
                self._kind = value.decode("latin-1").lower()
            case b"content-encoding":
                self._encoding = value.decode("latin-1").lower()
            case b"content-length" | b"transfer-encoding":
                self._delimited = True

    def on_headers_complete(self) -> None:
        """Keep the status (httptools)."""
        status = self._parser.get_status_code()
        if status in _INTERIM:
            return
        self._exchange.http_status = status
        if self._encoding not in ("", "identity"):
            self._exchange.fail(
                "stream_error",
                f"the response is compressed ({self._encoding}), which was not asked",
            )

    def on_body(self, body: bytes) -> None:
        """Take a part of the body in (httptools)."""
        exchange = self._exchange
        if exchange.http_status != HTTP_OK or not self._is_stream():
            if len(self._body) < _LONGEST_BODY:
                self._body += body
            return
        for payload in self._splitter.feed(body):
            if payload == DONE:
                continue
            try:
                event = decode(payload)
            except ValueError as error:
                exchange.fail("stream_error", str(error))
                continue
            merged = self._events_in_read > 0
            if exchange.take(event, self._stamp_ns, merged=merged):
                self._events_in_read += 1

    def on_message_complete(self) -> None:
        """Rule on the whole response (httptools)."""
        exchange = self._exchange
        if exchange.http_status is None:
            # An interim response, such as 100: the real one follows.
            return
        self.done = True
        said = self._body[:_LONGEST_BODY].decode(errors="replace")
        if exchange.http_status != HTTP_OK:
            exchange.fail("http_error", f"HTTP {exchange.http_status}: {said}")
        elif not self._is_stream():
            exchange.fail("stream_error", f"no event stream but {self._kind}: {said}")
        elif exchange.finish_reason is None:
            exchange.fail("incomplete", "the stream ended without a finish_reason")

    def _is_stream(self) -> bool:
        if self._encoding not in ("", "identity"):
            return False
        return not self._kind or self._kind.startswith("text/event-stream")
