"""The bytes of a response to an exchange: HTTP by httptools, events by msgspec."""

from __future__ import annotations

from collections.abc import Sequence

import httptools
import msgspec

from specbench.traffic.exchange import Exchange
from specbench.traffic.plain_reads import CHUNK_OF_EVENTS_END, EVENT_END, leading_choices
from specbench.traffic.server_events import DONE, EventSplitter, decode, decode_whole

HTTP_OK = 200
_INTERIM = range(100, 200)
_LONGEST_BODY = 4096
"""Bytes of a body that is no stream which are kept to be told."""


class Response:
    """Parses one response from its reads. Both kinds of connection use it."""

    __slots__ = (
        "_between_chunks",
        "_bodies",
        "_chunked",
        "_complete",
        "_delimited",
        "_encoding",
        "_exchange",
        "_is_stream",
        "_kind",
        "_parser",
        "_said",
        "_splitter",
        "_stamps_ns",
        "done",
        "keeps_alive",
        "on_body",
        "stamp_ns",
    )

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._bodies: list[bytes] = []
        self._stamps_ns: list[int] = []
        self.on_body = self._bodies.append
        """Keeps a part of the body (httptools, once an event: no Python is called for it)."""
        self._parser = httptools.HttpResponseParser(self)
        self._splitter = EventSplitter()
        self._said = bytearray()
        self._kind = self._encoding = ""
        self._delimited = self._chunked = self._is_stream = self._complete = False
        self._between_chunks = False
        self.stamp_ns = 0
        """When its latest bytes arrived; 0 before the first."""
        self.done = False
        """The response is whole, or is no HTTP."""
        self.keeps_alive = False
        """Whether the connection can carry another request."""

    @property
    def can_wait(self) -> bool:
        """Whether a read that ends with `CHUNK_OF_EVENTS_END` is not the last one.

        The end of a chunked body is an empty line; such a read ends with a line that has an event's
        empty line before it. A body of another kind may end with anything.
        """
        return self._is_stream and self._chunked and not self._complete

    def take(self, raw: bytes, ends: Sequence[int], stamps_ns: Sequence[int]) -> None:
        """Take in reads and everything that they say: where each ends, and when it arrived."""
        count = 0
        if self._between_chunks and self._splitter.is_between:
            choices = leading_choices(raw, ends)
            count = len(choices)
            if choices:
                self.stamp_ns = stamps_ns[count - 1]
                self._exchange.take_plain(choices, stamps_ns[:count])
        if count < len(ends):
            self._take_any(raw, ends, stamps_ns, count)

    def _take_any(
        self, raw: bytes, ends: Sequence[int], stamps_ns: Sequence[int], first: int
    ) -> None:
        """Take in reads of any kind, from one on."""
        bodies, of_bodies = self._bodies, self._stamps_ns
        start = ends[first - 1] if first else 0
        known = 0
        malformed: httptools.HttpParserError | None = None
        for place in range(first, len(ends)):
            if self._complete:
                # Nobody asked for these bytes: what follows them cannot be trusted.
                self.keeps_alive = False
                break
            end, self.stamp_ns = ends[place], stamps_ns[place]
            known = len(bodies)
            try:
                self._parser.feed_data(raw[start:end])
            except httptools.HttpParserError as error:
                malformed = error
            of_bodies += [self.stamp_ns] * (len(bodies) - known)
            if malformed is not None:
                break
            start = end
        # The parser gives of an unfinished chunk all that there is, so the last bytes too.
        self._between_chunks = (
            self.can_wait
            and len(bodies) > known
            and bodies[-1].endswith(EVENT_END)
            and raw.endswith(CHUNK_OF_EVENTS_END)
        )
        self._decode()
        if malformed is not None:
            self._exchange.fail("stream_error", f"malformed HTTP: {malformed}")
            self.done = True
        elif self._complete:
            self._rule()

    def lose(self, why: str) -> None:
        """Take in that the connection is gone."""
        if self._exchange.http_status is not None and not self._delimited:
            # A body without length ends with its connection (RFC 9112, section 6.3).
            self._rule()
        else:
            self._exchange.fail("connection_lost", why)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep what decides how the body is read (httptools)."""
        match name.lower():
            case b"content-type":
                self._kind = value.decode("latin-1").lower()
            case b"content-encoding":
                self._encoding = value.decode("latin-1").lower()
            case b"content-length":
                self._delimited = True
            case b"transfer-encoding":
                self._delimited = True
                self._chunked = value.lower() == b"chunked"

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

    def on_message_complete(self) -> None:
        """Note the end of the response (httptools)."""
        # After an interim response, such as 100, the real one follows.
        self._complete = self._exchange.http_status is not None
        # Only here: the parser forgets it with the next byte.
        self.keeps_alive = bool(self._parser.should_keep_alive())

    def _decode(self) -> None:
        """Split and decode the parts of the body."""
        bodies, stamps_ns = self._bodies, self._stamps_ns
        if not self._is_stream:
            for body in bodies:
                self._said += body[: _LONGEST_BODY - len(self._said)]
        elif self._splitter.is_between and (events := decode_whole(bodies)) is not None:
            self._exchange.take_all(events, stamps_ns)
        else:
            self._decode_each()
        bodies.clear()
        stamps_ns.clear()

    def _decode_each(self) -> None:
        exchange, splitter = self._exchange, self._splitter
        for body, stamp_ns in zip(self._bodies, self._stamps_ns, strict=True):
            for payload in splitter.feed(body):
                if payload == DONE:
                    continue
                try:
                    exchange.take(decode(payload), stamp_ns)
                except msgspec.DecodeError as error:
                    exchange.fail("stream_error", f"malformed event: {error}: {payload[:200]!r}")

    def _rule(self) -> None:
        """Rule on the whole response."""
        self.done = True
        exchange, said = self._exchange, self._said.decode(errors="replace")
        if exchange.http_status != HTTP_OK:
            exchange.fail("http_error", f"HTTP {exchange.http_status}: {said}")
        elif not self._is_stream:
            exchange.fail("stream_error", f"no event stream but {self._kind}: {said}")
        elif exchange.finish_reason is None:
            exchange.fail("incomplete", "the stream ended without a finish_reason")
