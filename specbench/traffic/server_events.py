"""Bytes of a response body to server-sent events, and an event's JSON to typed fields."""

from __future__ import annotations

from typing import Any

import msgspec


class ToolFunction(msgspec.Struct):
    """A part of a tool's name and arguments."""

    name: str | None = None
    arguments: str | None = None


class ToolCall(msgspec.Struct):
    """A part of a tool call."""

    function: ToolFunction | None = None


class Delta(msgspec.Struct):
    """What a chat event adds. Reasoning is `reasoning_content` in vLLM 0.11, `reasoning` later."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None

    def payload(self) -> str:
        """Give what it adds to the output: text, reasoning, or a tool's name and arguments."""
        said = self.content or self.reasoning or self.reasoning_content or ""
        for call in self.tool_calls or ():
            if call.function is not None:
                said += (call.function.name or "") + (call.function.arguments or "")
        return said


class Choice(msgspec.Struct):
    """One choice of an event."""

    delta: Delta | None = None
    finish_reason: str | None = None
    token_ids: list[int] | None = None


class PromptDetails(msgspec.Struct):
    """What vLLM says of a prompt's cached part."""

    cached_tokens: int | None = None


class Usage(msgspec.Struct):
    """Exact token counts."""

    prompt_tokens: int
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None


class Event(msgspec.Struct):
    """One streamed payload. It may carry several tokens, or none."""

    choices: list[Choice] | None = None
    usage: Usage | None = None
    error: Any = None


_DECODER = msgspec.json.Decoder(Event)
DONE = b"[DONE]"


def decode(payload: bytes) -> Event:
    """Give an event's fields.

    Raises:
        ValueError: The payload is no JSON of this shape.
    """
    try:
        return _DECODER.decode(payload)
    except msgspec.DecodeError as error:
        raise ValueError(f"malformed event: {error}: {payload[:200]!r}") from error


class EventSplitter:
    """Splits a body into the data of its events, however reads cut it.

    Follows the event-stream format: lines end with LF, CR or CRLF; a blank line ends an event;
    lines that start with a colon are comments; several data lines are joined by LF.
    """

    __slots__ = ("_after_cr", "_rest")

    def __init__(self) -> None:
        self._rest = bytearray()
        self._after_cr = False

    def feed(self, body: bytes) -> list[bytes]:
        """Take more of the body and give the data of every event that it completes."""
        if b"\r" in body or self._after_cr:
            body = self._with_line_feeds(body)
        rest = self._rest
        if not rest:
            if body.endswith(b"\n\n") and body.startswith(b"data: ") and body.count(b"\n") == 2:  # noqa: PLR2004 - one line, one blank
                # What servers nearly always send: one whole event of one line.
                return [body[6:-2]]
            searched = 0
        else:
            # What was searched before holds no end of an event; one may straddle the seam.
            searched = len(rest) - 1
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
