"""Bytes of a response body to server-sent events, and an event's JSON to typed fields."""

from __future__ import annotations

from typing import Any

import msgspec


class Delta(msgspec.Struct):
    """What a chat event adds. Reasoning is `reasoning_content` in vLLM 0.11, `reasoning` later."""

    content: str | None = None
    reasoning: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[Any] | None = None


class Choice(msgspec.Struct):
    """One choice of an event."""

    delta: Delta = msgspec.field(default_factory=Delta)
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


class Speculation(msgspec.Struct):
    """What speculation did for one request (vLLM 0.32+, --per-request-spec-decode-metrics)."""

    num_spec_steps: int | None = None
    num_draft_tokens: int | None = None
    num_accepted_draft_tokens: int | None = None


class RequestMetrics(msgspec.Struct):
    """What a server tells of one request with its usage."""

    speculative_decoding: Speculation | None = None


class Event(msgspec.Struct):
    """One streamed payload. It may carry several tokens, or none."""

    choices: list[Choice] = []
    usage: Usage | None = None
    metrics: RequestMetrics | None = None
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

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, body: bytes) -> list[bytes]:
        """Take more of the body and give the data of every event that it completes."""
        text = self._rest + body
        held = b""
        if b"\r" in text:
            # A CR at the end may be half of a CRLF: it waits for the next read.
            if text.endswith(b"\r"):
                text, held = text[:-1], b"\r"
            text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *blocks, self._rest = text.split(b"\n\n")
        self._rest += held
        return [data for block in blocks if (data := _data(block)) is not None]


def _data(block: bytes) -> bytes | None:
    if block.startswith(b"data: ") and b"\n" not in block:
        return block[6:]
    lines = [
        line[5:].removeprefix(b" ") for line in block.split(b"\n") if line.startswith(b"data:")
    ]
    return b"\n".join(lines) if lines else None
