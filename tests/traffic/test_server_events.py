from __future__ import annotations

import itertools
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.traffic.server_events import DONE, EventSplitter, decode, decode_whole
from tests.conftest import CAPTURES

STREAMS = sorted(CAPTURES.glob("*/*/stream.sse"))


def split_at(body: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(body) + 1) for place in places), len(body)]
    splitter = EventSplitter()
    return [event for a, b in itertools.pairwise(edges) for event in splitter.feed(body[a:b])]


@pytest.mark.parametrize(
    "path", STREAMS, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}"
)
def test_a_real_stream_gives_its_usage_and_every_event(path) -> None:
    body = path.read_bytes()
    *events, last = EventSplitter().feed(body)
    assert last == DONE
    assert len(events) == body.count(b"data: {")
    usages = [event.usage for event in map(decode, events) if event.usage is not None]
    said = json.loads(events[-1])["usage"]
    assert [u.completion_tokens for u in usages] == [said["completion_tokens"]]


@given(places=st.lists(st.integers(0, 10**6), max_size=40), which=st.sampled_from(STREAMS))
def test_a_real_stream_parses_alike_however_reads_cut_it(places: list[int], which) -> None:
    body = which.read_bytes()
    assert split_at(body, places) == EventSplitter().feed(body)


@given(
    places=st.lists(st.integers(0, 10**6), max_size=40),
    ending=st.sampled_from([b"\n", b"\r\n", b"\r"]),
)
def test_line_ends_do_not_matter(places: list[int], ending: bytes) -> None:
    lines = [
        b"data: one",
        b"",
        b": a comment",
        b"data: two",
        b"data:three",
        b"",
        b"event: x",
        b"",
        b"data: [DONE]",
        b"",
        b"",
    ]
    assert split_at(ending.join(lines) + b"data", places) == [b"one", b"two\nthree", b"[DONE]"]


def test_token_ids_of_an_event_are_counted_not_guessed() -> None:
    event = decode(b'{"choices": [{"delta": {"content": " a b"}, "token_ids": [4, 5, 6]}]}')
    assert event.choices[0].token_ids == [4, 5, 6]


@pytest.mark.parametrize(
    "payload", [b"{", b'{"choices": 3}', b"[]", b'{"usage": {"prompt_tokens": "x"}}']
)
def test_a_malformed_event_is_refused(payload: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode(payload)
    assert decode_whole([b"data: " + payload + b"\n\n"]) is None


@given(
    which=st.sampled_from(STREAMS),
    first=st.integers(0, 200),
    count=st.integers(1, 60),
    cut=st.integers(0, 10**6),
)
def test_whole_events_decode_together_as_they_do_one_by_one(
    which, first: int, count: int, cut: int
) -> None:
    blocks = [block + b"\n\n" for block in which.read_bytes().split(b"\n\n")[:-2]]
    chosen = blocks[first % len(blocks) :][:count]
    one_by_one = [decode(block[6:-2]) for block in chosen]
    assert decode_whole(chosen) == one_by_one
    assert decode_whole([*chosen, b"data: [DONE]\n\n"]) == one_by_one
    joined = b"".join(chosen)
    at = cut % len(joined)
    if len(chosen) > 1 and joined[:at][-2:] != b"\n\n":
        # As many bodies as events, but not one in each.
        assert decode_whole([joined[:at], *[joined[at:]] * (len(chosen) - 1)]) is None


def test_metrics_of_a_request_come_with_its_usage() -> None:
    """The last event of a captured 0.32 stream, with --per-request-spec-decode-metrics summary."""
    event = decode(
        b'{"choices":[],"usage":{"prompt_tokens":88,"total_tokens":152,"completion_tokens":64},'
        b'"metrics":{"time_to_first_token_ms":1049.9,"speculative_decoding":{'
        b'"mean_acceptance_length":2.038,"acceptance_histogram":[7,14,2,3],"num_spec_steps":26,'
        b'"num_accepted_draft_tokens":27,"num_draft_tokens":77,"num_spec_tokens":3}}}'
    )
    assert event.metrics is not None
    told = event.metrics.speculative_decoding
    assert told is not None
    assert (told.num_spec_steps, told.num_draft_tokens) == (26, 77)
    # 14 drafts had one token accepted, 2 had two and 3 had three.
    assert told.num_accepted_draft_tokens == 14 + 2 * 2 + 3 * 3
