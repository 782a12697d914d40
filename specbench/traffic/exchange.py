"""One request in flight: what its events say, and the row and output that they become."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

import attrs

from specbench.facts import Candidates, Output, RequestRow, RequestStatus
from specbench.traffic.candidates import candidates
from specbench.traffic.plain_reads import PlainChoice
from specbench.traffic.requests import TimedRequest
from specbench.traffic.server_events import Event, Speculation, Usage

LONGEST_ERROR = 500
"""Characters of an error that a row keeps."""


@attrs.define(eq=False)
class Exchange:
    """What is known of one request and its response."""

    request: TimedRequest
    on_done: Callable[[Exchange], None]
    """Called once, when the response is whole or lost."""
    called_ns: int
    scheduled_ns: int | None = None
    sent_ns: int = 0
    http_status: int | None = None
    first_event_ns: int | None = None
    first_payload_ns: int | None = None
    first_tokens_ns: int | None = None
    last_payload_ns: int | None = None
    last_event_ns: int = 0
    """The last event of any kind: what the time-out between events counts from."""
    ended_ns: int = 0
    failure: tuple[RequestStatus, str] | None = None
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    speculation: Speculation | None = None
    """What the server told of this request's drafts."""
    event_ns: array[int] = attrs.field(factory=lambda: array("q"))
    event_tokens: list[int | None] = attrs.field(factory=list)
    merged_events: int = 0
    """Reads have stamps of their own, so events of one stamp came in one read."""
    text: bytearray = attrs.field(factory=bytearray)
    """UTF-8: a string for each event would take ten times the memory."""
    answer_from: int = 0
    """Where in the text the content begins: after reasoning and tool calls."""
    token_ids: array[int] | None = None
    candidates: list[Candidates] | None = None

    def take_plain(self, choices: Sequence[PlainChoice], stamps_ns: Sequence[int]) -> None:
        """Take in events of one read each that do nothing but add text."""
        first_ns, last_ns = stamps_ns[0], stamps_ns[-1]
        # Two reads of what arrived at once have one stamp.
        self.merged_events += len(stamps_ns) - len(set(stamps_ns))
        if self.event_ns and self.event_ns[-1] == first_ns:
            self.merged_events += 1
        self.event_ns.extend(stamps_ns)
        self.text += "".join([choice.delta.content for choice in choices]).encode()
        told = [choice.token_ids for choice in choices]
        counts = [None if ids is None else len(ids) for ids in told]
        self.event_tokens += counts
        if any(counts):
            first = next(place for place, count in enumerate(counts) if count)
            self._take_ids(chain.from_iterable(filter(None, told)), stamps_ns[first])
        if self.first_event_ns is None:
            self.first_event_ns = first_ns
        if self.first_payload_ns is None:
            self.first_payload_ns = first_ns
        self.last_event_ns = self.last_payload_ns = last_ns

    def take_all(self, events: Sequence[Event], stamps_ns: Sequence[int]) -> None:
        """Take several events in. Those that only add text take a short way."""
        add_stamp, add_tokens = self.event_ns.append, self.event_tokens.append
        last_ns, text = self.last_event_ns, self.text
        for event, stamp_ns in zip(events, stamps_ns, strict=True):
            choices = event.choices
            if choices and last_ns and stamp_ns != last_ns and len(choices) == 1:
                choice = choices[0]
                said = choice.delta and choice.delta.content
                ids = choice.token_ids
                ends = choice.finish_reason or event.usage or event.metrics
                rare = ends or event.error or choice.logprobs
                middle = self.first_payload_ns and not rare
                if said and middle and (ids is None or self.token_ids is not None):
                    add_stamp(stamp_ns)
                    text += said.encode()
                    if ids is None:
                        add_tokens(None)
                    else:
                        add_tokens(len(ids))
                        self.token_ids.extend(ids)  # type: ignore[union-attr] # seen above
                    self.last_event_ns = self.last_payload_ns = last_ns = stamp_ns
                    continue
            self.take(event, stamp_ns)
            last_ns = stamp_ns

    def take(self, event: Event, stamp_ns: int) -> None:  # noqa: C901, PLR0912 - once an event: a call costs as much as its branches
        """Take one event in."""
        self.last_event_ns = stamp_ns
        if self.first_event_ns is None:
            self.first_event_ns = stamp_ns
        for choice in event.choices or ():
            delta, ids, finish = choice.delta, choice.token_ids, choice.finish_reason
            said = (delta.content or delta.rest()) if delta is not None else ""
            if not (said or ids or finish):
                continue
            if self.event_ns and self.event_ns[-1] == stamp_ns:
                self.merged_events += 1
            self.event_ns.append(stamp_ns)
            self.event_tokens.append(None if ids is None else len(ids))
            if said:
                self.text += said.encode()
                if delta is not None and not delta.content:
                    self.answer_from = len(self.text)
            if said or finish:
                self.last_payload_ns = stamp_ns
            if self.first_payload_ns is None and said:
                self.first_payload_ns = stamp_ns
            if ids:
                self._take_ids(ids, stamp_ns)
            if choice.logprobs is not None:
                self.candidates = self.candidates or []
                self.candidates += candidates(choice.logprobs)
            if finish:
                self.finish_reason = finish
        if event.usage is not None:
            self._take_usage(event.usage)
        if event.metrics is not None:
            self.speculation = event.metrics.speculative_decoding
        if event.error is not None:
            self.fail("stream_error", str(event.error))

    def _take_ids(self, ids: Iterable[int], stamp_ns: int) -> None:
        if self.token_ids is None:
            self.first_tokens_ns = stamp_ns
            self.token_ids = array("q")
        self.token_ids.extend(ids)

    def _take_usage(self, usage: Usage) -> None:
        self.prompt_tokens = usage.prompt_tokens
        self.completion_tokens = usage.completion_tokens
        details = usage.prompt_tokens_details
        self.cached_tokens = details.cached_tokens if details else None

    def fail(self, status: RequestStatus, error: str) -> None:
        """Note the first reason for which the request does not count."""
        self.failure = self.failure or (status, error[:LONGEST_ERROR])

    def end(self, ended_ns: int) -> None:
        """Close the exchange and tell the driver."""
        self.ended_ns = ended_ns
        self.on_done(self)

    def answer(self) -> str | None:
        """Give what a next turn builds on, without reasoning; None when the request failed."""
        return None if self.failure else self.text[self.answer_from :].decode()

    def row(self) -> RequestRow:
        """Give the finished row."""
        status, error = self.failure or ("ok", None)
        told = self.speculation
        return RequestRow(
            request_id=self.request.request_id,
            index=self.request.index,
            prompt_id=self.request.prompt_id,
            pass_index=self.request.pass_index,
            turn=self.request.turn,
            scheduled_ns=self.scheduled_ns,
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
            event_ns=self.event_ns,
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
            text=self.text.decode(),
            token_ids=self.token_ids,
            finish_reason=self.finish_reason,
            candidates=self.candidates,
        )
