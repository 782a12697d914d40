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
        "done",
        "keeps_alive",
        "on_body",
        "stamp_ns",
    )

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._bodies: list[bytes] = []
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

    def take(self, reads: Sequence[bytes], stamps_ns: Sequence[int]) -> None:
        """Take in reads and everything that they say, and when each arrived."""
        place = 0
        while place < len(reads) and not self.done:
            if self._between_chunks and self._splitter.is_between:
                choices = leading_choices(reads, place)
                if choices:
                    stop = place + len(choices)
                    self._exchange.take_plain(choices, stamps_ns[place:stop])
                    self.stamp_ns = stamps_ns[stop - 1]
                    place = stop
                    continue
            self._take_any(reads[place], stamps_ns[place])
            place += 1
        if place < len(reads):
            # Nobody asked for these bytes: what follows them cannot be trusted.
            self.keeps_alive = False

    def _take_any(self, data: bytes, stamp_ns: int) -> None:
        """Take in one read, whatever it holds."""
        self.stamp_ns = stamp_ns
        malformed: httptools.HttpParserError | None = None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            malformed = error
        bodies = self._bodies
        # The parser gives of an unfinished chunk all that there is, so the last bytes too.
        self._between_chunks = (
            self.can_wait
            and len(bodies) > 0
            and bodies[-1].endswith(EVENT_END)
            and data.endswith(CHUNK_OF_EVENTS_END)
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

    def release(self) -> None:
        """Let go of the parser, which holds this response in turn: a cycle is freed only late."""
        del self._parser

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
        """Split and decode the parts of the body that a read brought."""
        bodies, exchange, splitter = self._bodies, self._exchange, self._splitter
        if not self._is_stream:
            for body in bodies:
                self._said += body[: _LONGEST_BODY - len(self._said)]
        elif splitter.is_between and (events := decode_whole(bodies)) is not None:
            exchange.take_all(events, [self.stamp_ns] * len(events))
        else:
            for body in bodies:
                for payload in splitter.feed(body):
                    self._take_payload(payload)
        bodies.clear()

    def _take_payload(self, payload: bytes) -> None:
        if payload == DONE:
            return
        try:
            self._exchange.take(decode(payload), self.stamp_ns)
        except msgspec.DecodeError as error:
            said = f"malformed event: {error}: {payload[:200]!r}"
            self._exchange.fail("stream_error", said)

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
