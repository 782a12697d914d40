"""Reads that hold one whole chunk with one event that only adds text: nearly all of a stream.

They need neither the HTTP parser nor the splitter of events, which would take as long as all the
rest. Whatever is not exactly so is left to those.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated

import msgspec

from specbench.traffic.server_events import Delta

EVENT_END = b"\n\n"
CHUNK_OF_EVENTS_END = EVENT_END + b"\r\n"
"""How a read ends that ends with an event, and with its chunk."""
_LINE_FEEDS, _CARRIAGE_RETURNS = 4, 2
"""In such a read: one of both ends the chunk's size and one its body, two more end the event."""
_DATA = b"data: "


class PlainDelta(Delta, kw_only=True, gc=False):
    """Content that is not empty."""

    content: Annotated[str, msgspec.Meta(min_length=1)]


class PlainChoice(msgspec.Struct, gc=False):
    """A choice that goes on."""

    delta: PlainDelta
    finish_reason: None = None
    token_ids: list[int] | None = None
    logprobs: None = None


class PlainEvent(msgspec.Struct, gc=False):
    """An event of one choice, and of nothing else that we read."""

    choices: tuple[PlainChoice]
    usage: None = None
    metrics: None = None
    error: None = None


_decode = msgspec.json.Decoder(PlainEvent).decode


def leading_choices(reads: Sequence[bytes], first: int) -> list[PlainChoice]:
    """Give what reads say from one on as long as they are plain, a choice each."""
    found = []
    for read in reads[first:]:
        head = _head(len(read))
        if not read.startswith(head) or not read.endswith(CHUNK_OF_EVENTS_END):
            break
        try:
            event = _decode(read[len(head) : -len(CHUNK_OF_EVENTS_END)])
        except msgspec.DecodeError:
            break
        found.append(event.choices[0])
    count = len(found)
    raw = b"".join(reads[first : first + count])
    # JSON may have line ends between its parts, at which an event's data would end.
    one_line_each = (
        raw.count(b"\n") == _LINE_FEEDS * count and raw.count(b"\r") == _CARRIAGE_RETURNS * count
    )
    return found if one_line_each else []


@cache
def _head(size: int) -> bytes:
    """Give how a read of so many bytes starts that is one chunk of data."""
    for digits in range(1, 9):
        length = b"%x" % max(size - digits - len(b"\r\n\r\n"), 0)
        if len(length) == digits:
            return length + b"\r\n" + _DATA
    return b"no chunk"
