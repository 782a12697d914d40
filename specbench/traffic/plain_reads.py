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
_decode_list = msgspec.json.Decoder(list[PlainEvent]).decode
_GOES_ON = b'"finish_reason":null'
"""What vLLM's events hold until the last one: which of them are plain need not be tried out."""


def leading_choices(reads: Sequence[bytes], first: int) -> list[PlainChoice]:
    """Give what reads say from one on as long as they are plain, a choice each."""
    if not _one_by_one(reads[first : first + 1]):
        # Of a reasoning stream none is: the rest is not put together again for each.
        return []
    stop = len(reads)
    while stop > first and _GOES_ON not in reads[stop - 1]:
        stop -= 1
    return _together(reads[first:stop]) or _one_by_one(reads[first:])


def _together(reads: Sequence[bytes]) -> list[PlainChoice]:
    """Give what reads say, in two thirds of the time; nothing if any of them is not plain."""
    heads = list(map(_head, map(len, reads)))
    if not all(map(bytes.startswith, reads, heads)):
        return []
    raw = b"".join(reads)
    # Of no reads, too.
    if not raw.endswith(CHUNK_OF_EVENTS_END):
        return []
    for head in set(heads):
        raw = raw.replace(CHUNK_OF_EVENTS_END + head, b",")
    payloads = raw[len(heads[0]) : -len(CHUNK_OF_EVENTS_END)]
    if b"\n" in payloads or b"\r" in payloads:
        # JSON may have line ends between its parts, at which an event's data would end.
        return []
    try:
        events = _decode_list(b"[%b]" % payloads)
    except msgspec.DecodeError:
        return []
    return [event.choices[0] for event in events] if len(events) == len(reads) else []


def _one_by_one(reads: Sequence[bytes]) -> list[PlainChoice]:
    """Give what reads say up to the first that is not plain."""
    found = []
    for read in reads:
        head = _head(len(read))
        payload = read[len(head) : -len(CHUNK_OF_EVENTS_END)]
        framed = read.startswith(head) and read.endswith(CHUNK_OF_EVENTS_END)
        if not framed or b"\n" in payload or b"\r" in payload:
            break
        try:
            event = _decode(payload)
        except msgspec.DecodeError:
            break
        found.append(event.choices[0])
    return found


@cache
def _head(size: int) -> bytes:
    """Give how a read of so many bytes starts that is one chunk of data."""
    for digits in range(1, 9):
        length = b"%x" % max(size - digits - len(b"\r\n\r\n"), 0)
        if len(length) == digits:
            return length + b"\r\n" + _DATA
    return b"no chunk"
