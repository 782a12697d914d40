"""Every recorded stream becomes one row, however HTTP, reads and batches cut it."""

from __future__ import annotations

import gc
import itertools
import json
import weakref
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.facts import RequestRow
from specbench.traffic.exchange import Exchange
from specbench.traffic.response import Response
from tests.conftest import CAPTURES
from tests.traffic.faulty_server import END, HEAD, chunk, event, request

STREAMS = sorted(CAPTURES.glob("streams/*.sse"))
NAMES = [path.stem for path in STREAMS]
BODIES = {path.stem: path.read_bytes() for path in STREAMS}


@dataclass
class Wire:
    """A response as it is sent: where each event that makes a stamp ends in it, and its text."""

    sent: bytes
    ends: list[int]
    text: str


def counts(data: bytes) -> tuple[bool, str]:
    """Tell by plain JSON whether an event makes a stamp, and its text."""
    if data == b"[DONE]":
        return False, ""
    choices = json.loads(data)["choices"]
    if not choices:
        return False, ""
    said = choices[0].get("delta", {}).get("content") or ""
    return bool(said or choices[0].get("token_ids") or choices[0]["finish_reason"]), said


def wire_of(body: bytes, per_chunk: int | None) -> Wire:
    """Give a response whose chunks hold one event each, or so many bytes."""
    wire = Wire(HEAD, [], "")
    events = [block + b"\n\n" for block in body.split(b"\n\n")[:-1]]
    places = []
    if per_chunk is None:
        for one in events:
            wire.sent += chunk(one)
            places.append(len(wire.sent) - 2)
    else:
        ends = list(itertools.accumulate(map(len, events)))
        for start in range(0, len(body), per_chunk):
            part = body[start : start + per_chunk]
            begin = len(wire.sent) + len(f"{len(part):x}") + 2
            places += [begin + end - start for end in ends if start < end <= start + len(part)]
            wire.sent += chunk(part)
    for one, place in zip(events, places, strict=True):
        stamped, said = counts(one[6:-2])
        wire.text += said
        if stamped:
            wire.ends.append(place)
    wire.sent += END
    return wire


def taken(sent: bytes, ends: list[int], batches: list[int]) -> Exchange:
    """Let a response take reads in batches; read k of them arrives at the instant k, from 1."""
    finished = Exchange(request(), lambda _: None, 0)
    response = Response(finished)
    sizes = itertools.chain(batches, itertools.repeat(1))
    reads = [sent[start:end] for start, end in itertools.pairwise([0, *ends])]
    first = 0
    while first < len(reads):
        stop = min(first + next(sizes), len(reads))
        response.take(reads[first:stop], list(range(first + 1, stop + 1)))
        first = stop
    assert response.done
    assert response.keeps_alive
    return finished


def told(row: RequestRow) -> list[object]:
    return [row.status, row.error, row.finish_reason, row.prompt_tokens, row.completion_tokens]


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_stream_is_a_success_with_its_usage_and_text(name: str) -> None:
    wire = wire_of(BODIES[name], None)
    finished = taken(wire.sent, [len(wire.sent)], [])
    assert finished.failure is None
    assert finished.output().text == wire.text
    assert finished.completion_tokens is not None


@settings(deadline=None, max_examples=150)
@given(
    name=st.sampled_from(NAMES),
    per_chunk=st.none() | st.integers(1, 3000),
    cut_at_chunks=st.booleans(),
    cuts=st.lists(st.integers(0, 10**6), max_size=20),
    batches=st.lists(st.integers(1, 40), max_size=20),
)
def test_a_recorded_stream_gives_one_row_however_reads_and_batches_cut_it(
    name: str, per_chunk: int | None, cut_at_chunks: bool, cuts: list[int], batches: list[int]
) -> None:
    wire = wire_of(BODIES[name], per_chunk)
    edges = {cut % len(wire.sent) for cut in cuts} - {0} | {len(wire.sent)}
    if cut_at_chunks:
        # As servers write: every event comes alone.
        edges |= {len(HEAD), *(end + 2 for end in wire.ends)}
    ends = sorted(edges)
    found, whole = taken(wire.sent, ends, batches), taken(wire.sent, [len(wire.sent)], [])
    assert found.output() == whole.output()
    assert found.output().text == wire.text
    assert found.event_tokens == whole.event_tokens
    assert told(found.row()) == told(whole.row())
    arrived = [next(k for k, end in enumerate(ends, 1) if end >= place) for place in wire.ends]
    assert list(found.event_ns) == arrived
    assert found.merged_events == len(arrived) - len(set(arrived))


NEAR_MISSES = {
    "a line end within the JSON": event("b").replace(b'":[', b'":\n[', 1),
    "a return within the JSON": event("b").replace(b'":[', b'":\r[', 1),
    "two events": event("b") + event("c"),
    "an error beside a choice": event("b")[:-3] + b',"error":"boom"}\n\n',
    "a finish reason": event("b", finish='"stop"'),
    "empty content": event(""),
    "a comment before it": b": hm\n" + event("b"),
    "no space after the colon": event("b").replace(b"data: ", b"data:"),
    "content of another type": event("b").replace(b'"b"', b"7"),
}


@pytest.mark.parametrize("odd", NEAR_MISSES.values(), ids=NEAR_MISSES)
def test_what_is_almost_a_plain_event_reads_as_it_does_in_pieces(odd: bytes) -> None:
    parts = [HEAD, *map(chunk, (event("a"), odd, event("z"), event("", finish='"stop"'))), END]
    sent = b"".join(parts)
    ends = list(itertools.accumulate(map(len, parts)))
    batched = taken(sent, ends, [2, len(parts)])
    pieces = taken(sent, list(range(1, len(sent) + 1)), [])
    assert batched.output() == pieces.output()
    assert batched.failure == pieces.failure
    assert batched.event_tokens == pieces.event_tokens


def test_a_chunk_that_looks_like_the_end_of_one_in_its_middle_keeps_its_stamps() -> None:
    """A read may end with an event, a blank line and CRLF inside a chunk that goes on."""
    inner = event("a") + b"\r\n" + event("b") + event("c", finish='"stop"')
    sent = HEAD + chunk(event("x")) + chunk(inner) + END
    cut = sent.index(b"\n\n\r\ndata: ") + 4
    finished = taken(sent, [len(HEAD), cut, len(sent)], [1, 2])
    assert finished.output().text == "xabc"
    assert list(finished.event_ns) == [2, 2, 3, 3]


def test_bytes_behind_a_response_end_its_connection() -> None:
    finished = Exchange(request(), lambda _: None, 0)
    response = Response(finished)
    whole = HEAD + chunk(event("a", finish='"stop"')) + END
    response.take([whole, b"more"], [1, 2])
    assert response.done
    assert not response.keeps_alive
    assert finished.failure is None


def test_a_response_that_is_over_is_freed_at_once() -> None:
    """A window collects no garbage, so what waits for that stays until the window ends."""
    finished = Exchange(request(), lambda _: None, 0)
    response = Response(finished)
    response.take([HEAD + chunk(event("a", finish='"stop"')) + END], [1])
    response.release()
    held = weakref.ref(finished)
    gc.disable()
    try:
        del finished, response
        assert held() is None
    finally:
        gc.enable()
