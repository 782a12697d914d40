"""The bytes of a response to an exchange: HTTP by httptools, events by msgspec."""

from __future__ import annotations

import httptools
import msgspec

from specbench.traffic.exchange import Exchange
from specbench.traffic.server_events import DONE, EventSplitter, decode, decode_whole

HTTP_OK = 200
_INTERIM = range(100, 200)
BATCH_BYTES = 8192
"""Bytes of a body that wait to be decoded: some forty events of usual size. A batch takes a third
of the time of as many single events, between which other streams evict code and data from the
caches. Stamps are taken at once."""
BATCH_STEPS = 32
_LONGEST_BODY = 4096
"""Bytes of a body that is no stream which are kept to be told."""


class Response:
    """Parses one response as its bytes come. Both kinds of connection use it."""

    __slots__ = (
        "_bodies",
        "_delimited",
        "_encoding",
        "_exchange",
        "_is_stream",
        "_kind",
        "_parser",
        "_room",
        "_said",
        "_splitter",
        "_stamps_ns",
        "done",
        "feed",
        "keeps_alive",
        "stamp_ns",
    )

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._parser = httptools.HttpResponseParser(self)
        self.feed = self._parser.feed_data
        """Takes one read in, after `stamp_ns` was set. Raises httptools.HttpParserError."""
        self._splitter = EventSplitter()
        self._bodies: list[bytes] = []
        self._stamps_ns: list[int] = []
        # Streams that start together do not all decode together.
        self._room = BATCH_BYTES * (1 + exchange.request.index % BATCH_STEPS) // BATCH_STEPS
        self._said = bytearray()
        self._kind = self._encoding = ""
        self._delimited = self._is_stream = False
        self.stamp_ns = 0
        """When its latest bytes arrived; 0 before the first. Whoever feeds it sets it first."""
        self.done = False
        """The response is whole, or is no HTTP."""
        self.keeps_alive = False
        """Whether the connection can carry another request."""

    def malformed(self, error: Exception) -> None:
        """Take in that `feed` found no HTTP."""
        self.decode()
        self._exchange.fail("stream_error", f"malformed HTTP: {error}")
        self.done = True

    def lose(self, why: str) -> None:
        """Take in that the connection is gone."""
        self.decode()
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
        plain = self._encoding in ("", "identity")
        event_stream = not self._kind or self._kind.startswith("text/event-stream")
        self._is_stream = status == HTTP_OK and plain and event_stream
        if not plain:
            self._exchange.fail(
                "stream_error",
                f"the response is compressed ({self._encoding}), which was not asked",
            )

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body with the stamp of its read (httptools)."""
        self._bodies.append(body)
        self._stamps_ns.append(self.stamp_ns)
        self._room -= len(body)
        if self._room <= 0:
            self.decode()

    def decode(self) -> None:
        """Split and decode what has come since the last time."""
        bodies, stamps_ns = self._bodies, self._stamps_ns
        self._bodies, self._stamps_ns, self._room = [], [], BATCH_BYTES
        if not self._is_stream:
            for body in bodies:
                self._said += body[: _LONGEST_BODY - len(self._said)]
            return
        exchange, splitter = self._exchange, self._splitter
        if splitter.is_between and (events := decode_whole(bodies)) is not None:
            exchange.take_all(events, stamps_ns)
            return
        for body, stamp_ns in zip(bodies, stamps_ns, strict=True):
            for payload in splitter.feed(body):
                if payload == DONE:
                    continue
                try:
                    exchange.take(decode(payload), stamp_ns)
                except msgspec.DecodeError as error:
                    exchange.fail("stream_error", f"malformed event: {error}: {payload[:200]!r}")

    def on_message_complete(self) -> None:
        """Rule on the whole response (httptools)."""
        exchange = self._exchange
        if exchange.http_status is None:
            # An interim response, such as 100: the real one follows.
            return
        self.done = True
        # Only here: the parser forgets it with the next byte.
        self.keeps_alive = bool(self._parser.should_keep_alive())
        self.decode()
        said = self._said.decode(errors="replace")
        if exchange.http_status != HTTP_OK:
            exchange.fail("http_error", f"HTTP {exchange.http_status}: {said}")
        elif not self._is_stream:
            exchange.fail("stream_error", f"no event stream but {self._kind}: {said}")
        elif exchange.finish_reason is None:
            exchange.fail("incomplete", "the stream ended without a finish_reason")
