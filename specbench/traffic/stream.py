"""One connection that streams one request at a time, stamped as its bytes arrive.

`asyncio.Protocol` with httptools, because the usual client stack costs some thirty times the CPU an
event and delays its stamps by it (docs/decisions/0005-own-stream-client.md). The event loop takes
the arrival stamp (clock `user`).
"""

from __future__ import annotations

import asyncio
import time
from urllib.parse import urlsplit

import attrs
import httptools

from specbench.facts import Output, RequestRow, RequestStatus
from specbench.traffic.requests import TimedRequest
from specbench.traffic.server_events import DONE, Event, EventSplitter, Speculation, decode

CLOCK = "user"
HTTP_OK = 200
LONGEST_ERROR = 500
"""Characters of an error body that a row keeps."""


@attrs.frozen
class Address:
    """Where a server listens."""

    host: str
    port: int

    @classmethod
    def of(cls, base_url: str) -> Address:
        """Give the address of a plain http URL."""
        parts = urlsplit(base_url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError(f"no plain http URL: {base_url}")
        return cls(parts.hostname, parts.port or 80)


@attrs.define
class Exchange:
    """What is known of the request in flight."""

    request: TimedRequest
    called_ns: int
    sent_ns: int
    done: asyncio.Future[None]
    splitter: EventSplitter = attrs.field(factory=EventSplitter)
    http_status: int | None = None
    body: bytearray = attrs.field(factory=bytearray)
    """The body of an answer that is no stream."""
    first_event_ns: int | None = None
    first_payload_ns: int | None = None
    first_tokens_ns: int | None = None
    last_payload_ns: int | None = None
    ended_ns: int = 0
    failure: tuple[RequestStatus, str] | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    speculation: Speculation | None = None
    event_ns: list[int] = attrs.field(factory=list)
    event_tokens: list[int | None] = attrs.field(factory=list)
    merged_events: int = 0
    text: list[str] = attrs.field(factory=list)
    token_ids: list[int] | None = None

    def take(self, event: Event, stamp_ns: int, *, merged: bool) -> bool:
        """Take one event in, and tell whether it carried anything of the output."""
        carried = False
        if self.first_event_ns is None:
            self.first_event_ns = stamp_ns
        if event.error is not None:
            self.fail("stream_error", str(event.error))
        if event.usage is not None:
            self.prompt_tokens = event.usage.prompt_tokens
            self.completion_tokens = event.usage.completion_tokens
            details = event.usage.prompt_tokens_details
            self.cached_tokens = details.cached_tokens if details else None
        if event.metrics is not None:
            self.speculation = event.metrics.speculative_decoding
        for choice in event.choices:
            delta = choice.delta
            said = delta.content or delta.reasoning or delta.reasoning_content
            ids = choice.token_ids
            if not (said or delta.tool_calls or ids or choice.finish_reason):
                continue
            carried = True
            self.merged_events += merged
            self.event_ns.append(stamp_ns)
            self.event_tokens.append(None if ids is None else len(ids))
            if said or delta.tool_calls:
                self.first_payload_ns = self.first_payload_ns or stamp_ns
                self.text.append(said or "")
            if ids:
                self.first_tokens_ns = self.first_tokens_ns or stamp_ns
                self.token_ids = [*(self.token_ids or ()), *ids]
            self.finish_reason = choice.finish_reason or self.finish_reason
            if said or delta.tool_calls or choice.finish_reason:
                self.last_payload_ns = stamp_ns
        return carried

    def fail(self, status: RequestStatus, error: str) -> None:
        """Note the first reason for which the request does not count."""
        self.failure = self.failure or (status, error[:LONGEST_ERROR])

    def row(self) -> RequestRow:
        """Give the finished row."""
        status, error = self.failure or ("ok", None)
        told = self.speculation
        return RequestRow(
            request_id=self.request.request_id,
            index=self.request.index,
            prompt_id=self.request.prompt_id,
            pass_index=self.request.pass_index,
            called_ns=self.called_ns,
            sent_ns=self.sent_ns,
            first_event_ns=self.first_event_ns,
            first_payload_ns=self.first_payload_ns,
            first_tokens_ns=self.first_tokens_ns,
            last_payload_ns=self.last_payload_ns,
            ended_ns=self.ended_ns,
            status=status,
            http_status=self.http_status,
            error=error,
            finish_reason=self.finish_reason,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cached_tokens=self.cached_tokens,
            event_ns=tuple(self.event_ns),
            event_tokens=tuple(self.event_tokens),
            merged_events=self.merged_events,
            drafts=told.num_spec_steps if told else None,
            drafted_tokens=told.num_draft_tokens if told else None,
            accepted_tokens=told.num_accepted_draft_tokens if told else None,
        )

    def output(self) -> Output:
        """Give what was generated."""
        return Output(
            request_id=self.request.request_id,
            prompt_id=self.request.prompt_id,
            text="".join(self.text),
            token_ids=None if self.token_ids is None else tuple(self.token_ids),
            finish_reason=self.finish_reason,
        )


class Connection(asyncio.Protocol):
    """A kept-alive connection. One exchange at a time."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = None
        self._exchange: Exchange | None = None
        self._stamp_ns = 0
        self._events_in_read = 0

    async def open(self) -> None:
        """Connect, unless the connection still stands."""
        if self._transport is not None and not self._transport.is_closing():
            return
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, self._address.host, self._address.port)

    def close(self) -> None:
        """Close the connection; a request in flight is lost."""
        if self._transport is not None:
            self._transport.close()

    async def stream(self, request: TimedRequest, *, timeout_s: float) -> Exchange:
        """Send one request and wait until its response is whole or lost. Nothing is sent twice."""
        called_ns = time.perf_counter_ns()
        loop = asyncio.get_running_loop()
        exchange = Exchange(request, called_ns, called_ns, loop.create_future())
        try:
            await self.open()
        except OSError as error:
            exchange.fail("connection_lost", f"cannot connect: {error}")
            exchange.ended_ns = time.perf_counter_ns()
            return exchange
        self._exchange = exchange
        self._parser = httptools.HttpResponseParser(self)
        timer = loop.call_later(timeout_s, self._time_out, exchange, timeout_s)
        assert self._transport is not None
        exchange.sent_ns = time.perf_counter_ns()
        self._transport.write(request.wire)
        try:
            await exchange.done
        finally:
            timer.cancel()
            self._exchange = None
            if not exchange.done.done() or exchange.failure:
                self.close()
        return exchange

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport (asyncio.Protocol)."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Stamp a read, then parse it (asyncio.Protocol)."""
        self._stamp_ns = time.perf_counter_ns()
        self._events_in_read = 0
        if self._exchange is None or self._parser is None:
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._finish("stream_error", f"malformed HTTP: {error}")

    def connection_lost(self, exc: Exception | None) -> None:
        """End the exchange that the connection carried (asyncio.Protocol)."""
        self._transport = None
        self._stamp_ns = time.perf_counter_ns()
        self._finish("connection_lost", str(exc or "closed by the server"))

    def on_headers_complete(self) -> None:
        """Keep the status (httptools)."""
        if self._exchange is not None and self._parser is not None:
            self._exchange.http_status = self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body in (httptools)."""
        exchange = self._exchange
        if exchange is None:
            return
        if exchange.http_status != HTTP_OK:
            exchange.body += body
            return
        for payload in exchange.splitter.feed(body):
            if payload == DONE:
                continue
            try:
                event = decode(payload)
            except ValueError as error:
                exchange.fail("stream_error", str(error))
                continue
            merged = self._events_in_read > 0
            self._events_in_read += exchange.take(event, self._stamp_ns, merged=merged)

    def on_message_complete(self) -> None:
        """End the exchange (httptools)."""
        exchange = self._exchange
        if exchange is None:
            return
        if exchange.http_status != HTTP_OK:
            said = exchange.body.decode(errors="replace")
            self._finish("http_error", f"HTTP {exchange.http_status}: {said}")
        elif exchange.finish_reason is None:
            self._finish("incomplete", "the stream ended without a finish_reason")
        else:
            self._finish()
        if self._parser is not None and not self._parser.should_keep_alive():
            self.close()

    def _time_out(self, exchange: Exchange, timeout_s: float) -> None:
        if exchange is self._exchange:
            self._stamp_ns = time.perf_counter_ns()
            self._finish("timeout", f"not complete after {timeout_s:g} s")
            self.close()

    def _finish(self, status: RequestStatus = "ok", error: str = "") -> None:
        exchange = self._exchange
        if exchange is None or exchange.done.done():
            return
        if status != "ok":
            exchange.fail(status, error)
        exchange.ended_ns = self._stamp_ns
        exchange.done.set_result(None)
