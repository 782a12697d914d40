"""Bytes of a response body to server-sent events, and an event's JSON to typed fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec


class ToolFunction(msgspec.Struct, gc=False):
    """A part of a tool's name and arguments."""

    name: str | None = None
    arguments: str | None = None


class ToolCall(msgspec.Struct, gc=False):
    """A part of a tool call."""

    function: ToolFunction | None = None


class Delta(msgspec.Struct, gc=False):
    """What a chat event adds. Reasoning is `reasoning_content` in vLLM 0.11, `reasoning` later."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None

    def rest(self) -> str:
        """Give what it adds besides content: reasoning, or a tool's name and arguments."""
        said = self.reasoning or self.reasoning_content or ""
        for call in self.tool_calls or ():
            if call.function is not None:
                said += (call.function.name or "") + (call.function.arguments or "")
        return said


class TopLogprob(msgspec.Struct, gc=False):
    """A likely token of a place."""

    token: str
    """`token_id:17` where ids were asked for."""
    logprob: float


class TokenLogprobs(msgspec.Struct, gc=False):
    """The likeliest tokens of one place."""

    top_logprobs: list[TopLogprob] = []


class Logprobs(msgspec.Struct, gc=False):
    """What an event says of the likelihood of its tokens."""

    content: list[TokenLogprobs] | None = None


class Choice(msgspec.Struct, gc=False):
    """One choice of an event."""

    delta: Delta | None = None
    finish_reason: str | None = None
    token_ids: list[int] | None = None
    logprobs: Logprobs | None = None


class PromptDetails(msgspec.Struct, gc=False):
    """What vLLM says of a prompt's cached part."""

    cached_tokens: int | None = None


class Usage(msgspec.Struct, gc=False):
    """Exact token counts."""

    prompt_tokens: int
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None


class Speculation(msgspec.Struct, gc=False):
    """What speculation did for one request (vLLM 0.32+, --per-request-spec-decode-metrics)."""

    num_spec_steps: int | None = None
    num_draft_tokens: int | None = None
    num_accepted_draft_tokens: int | None = None


class RequestMetrics(msgspec.Struct, gc=False):
    """What a server tells of one request with its usage."""

    speculative_decoding: Speculation | None = None


class Event(msgspec.Struct, gc=False):
    """One streamed payload. It may carry several tokens, or none."""

    choices: list[Choice] | None = None
    usage: Usage | None = None
    metrics: RequestMetrics | None = None
    error: Any = None


DONE = b"[DONE]"
_decode_list = msgspec.json.Decoder(list[Event]).decode
_DATA = b"data: "
_DONE_EVENT = _DATA + DONE + b"\n\n"
_CARRIAGE_RETURN = 13
decode = msgspec.json.Decoder(Event).decode
"""Gives an event's fields. Raises msgspec.DecodeError where a payload is no JSON of this shape."""


def decode_whole(bodies: Sequence[bytes]) -> list[Event] | None:
    """Give the events of bodies that are one whole event of one line each, or None.

    Nearly all are, and are then decoded in one go. What separates two events has the only line ends
    that there are, so it cannot lie inside one; anything else that a body may hold is no JSON, but
    for the end of the stream, which says nothing.
    """
    if bodies and bodies[-1] == _DONE_EVENT:
        bodies = bodies[:-1]
        if not bodies:
            return []
    if [body[-2:] for body in bodies].count(b"\n\n") != len(bodies) or not bodies:
        return None
    body = b"".join(bodies)
    one_line_each = body.count(b"\n") == 2 * len(bodies) and b"\r" not in body
    if not (one_line_each and body.startswith(_DATA)):
        return None
    try:
        events = _decode_list(b"[%b]" % body[len(_DATA) : -2].replace(b"\n\n" + _DATA, b","))
    except msgspec.DecodeError:
        return None
    return events if len(events) == len(bodies) else None


class EventSplitter:
    """Splits a body into the data of its events, however reads cut it.

    Follows the event-stream format: lines end with LF, CR or CRLF; a blank line ends an event;
    lines that start with a colon are comments; several data lines are joined by LF.
    """

    __slots__ = ("_after_cr", "_rest")

    def __init__(self) -> None:
        self._rest = bytearray()
        self._after_cr = False

    @property
    def is_between(self) -> bool:
        """Whether it holds no part of an event."""
        return not self._rest and not self._after_cr

    def feed(self, body: bytes) -> list[bytes]:
        """Take more of the body and give the data of every event that it completes."""
        if _CARRIAGE_RETURN in body or self._after_cr:
            body = self._with_line_feeds(body)
        rest = self._rest
        # What was searched before holds no end of an event; one may straddle the seam.
        searched = max(len(rest) - 1, 0)
        rest += body
        found = []
        start = 0
        while (end := rest.find(b"\n\n", max(start, searched))) >= 0:
            data = _data(bytes(rest[start:end]))
            if data is not None:
                found.append(data)
            start = end + 2
        if start:
            del rest[:start]
        return found

    def _with_line_feeds(self, body: bytes) -> bytes:
        """Give the body with every line end as LF. A CRLF may be cut in two by a read."""
        if self._after_cr and body.startswith(b"\n"):
            body = body[1:]
            self._after_cr = False
        if body:
            self._after_cr = body.endswith(b"\r")
        return body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _data(block: bytes) -> bytes | None:
    lines = [
        line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")
    ]
    return b"\n".join(lines) if lines else None
