from __future__ import annotations

import json
import pickle

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.experiment.model import Sampling
from specbench.experiment.prompt import Message, Prompt, Turn
from specbench.facts import RequestRow
from specbench.traffic.requests import (
    Wording,
    cache_salt,
    cut_short,
    filling,
    following,
    measured,
    request_seed,
    shuffled,
    warming,
)
from tests.conftest import row


def prompt(name: str, said: str) -> Prompt:
    return Prompt(
        id=name,
        stratum="s",
        messages=(Message(role="user", content=said),),
        max_tokens=9,
        source="t",
        licence="Apache-2.0",
    )


PROMPTS = [prompt(f"p{n}", f"number {n} is said in words one two three four {n}") for n in range(5)]


def wording(**sampling: object) -> Wording:
    return Wording(
        host="127.0.0.1:8",
        path="/v1/chat/completions",
        model="target",
        sampling=Sampling(name="x", **sampling),
        salt="run/deployment/cell",  # type: ignore[arg-type]
    )


def body(wire: bytes) -> dict:
    head, _, content = wire.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(content)}".encode() in head
    return json.loads(content)


def test_a_request_states_everything_that_a_server_might_default() -> None:
    said = body(measured(PROMPTS, 1, wording(temperature=0))[0].wire)
    assert said["temperature"] == 0
    assert said["max_tokens"] == 9
    assert said["stream_options"] == {"include_usage": True}
    assert said["return_token_ids"] is True
    assert "ignore_eos" not in said
    assert "top_p" not in said


def test_optional_settings_are_sent_when_asked() -> None:
    said = body(
        measured(PROMPTS, 1, wording(temperature=0.7, top_p=0.9, seed=4, ignore_eos=True))[0].wire
    )
    assert (said["top_p"], said["seed"], said["ignore_eos"]) == (
        0.9,
        request_seed(4, "p0", 0, 0),
        True,
    )


def test_log_probabilities_are_asked_by_token_id_and_only_where_a_wording_says_so() -> None:
    names = ("logprobs", "top_logprobs", "return_tokens_as_token_ids")
    timed = body(measured(PROMPTS, 1, wording())[0].wire)
    assert not set(names) & set(timed)
    captured = attrs.evolve(wording(), top_logprobs=5)
    said = body(measured(PROMPTS, 1, captured)[0].wire)
    assert [said[name] for name in names] == [True, 5, True]


def test_passes_go_over_all_prompts_and_are_salted_apart() -> None:
    requests = measured(PROMPTS, 12, wording())
    assert [r.prompt_id for r in requests] == [f"p{n % 5}" for n in range(12)]
    assert [r.pass_index for r in requests] == [n // 5 for n in range(12)]
    salts = [body(r.wire)["cache_salt"] for r in requests]
    assert len(set(salts)) == 3
    assert len({r.request_id for r in requests}) == 12


def test_a_salt_keeps_what_vllm_032_demands() -> None:
    salt = cache_salt("experiment-digest/b01-01-arm-a1/code-greedy-c8" * 5, 3)
    assert len(salt) <= 128
    assert not set(salt) & set("@/\\\0")
    assert salt != cache_salt("experiment-digest/b01-01-arm-a1/code-greedy-c8" * 5, 4)


@given(seed=st.integers(0, 1000))
def test_an_order_is_seeded_and_loses_no_prompt(seed: int) -> None:
    order = shuffled(PROMPTS, seed)
    assert order == shuffled(PROMPTS, seed)
    assert sorted(p.id for p in order) == [f"p{n}" for n in range(5)]


@pytest.mark.parametrize("count", [1, 2, 5])
def test_warming_prompts_are_not_the_measured_ones(count: int) -> None:
    texts = {p.messages[-1].content for p in PROMPTS[:count]}
    warm = [
        body(r.wire)["messages"][-1]["content"] for r in warming(PROMPTS[:count], 8, 0, wording())
    ]
    assert not texts & set(warm)
    assert {body(r.wire)["max_tokens"] for r in warming(PROMPTS, 3, 0, wording())} == {9}


def test_waves_have_requests_of_their_own() -> None:
    first = {r.request_id for r in warming(PROMPTS, 4, 0, wording())}
    second = {r.request_id for r in warming(PROMPTS, 4, 1, wording())}
    assert not first & second


TALK = Prompt(
    id="talk",
    stratum="s",
    messages=(Message(role="system", content="Be short."),),
    turns=(Turn(user="one"), Turn(user="two", assistant="scripted"), Turn(user="three")),
    max_tokens=9,
    source="t",
    licence="Apache-2.0",
)


def said(request: object) -> list[tuple[str, str]]:
    return [(m["role"], m["content"]) for m in body(request.wire)["messages"]]  # type: ignore[attr-defined]


def test_a_conversation_is_fed_the_served_answer_or_that_of_its_script() -> None:
    first, single = measured([TALK, PROMPTS[0]], 2, wording())
    assert said(first) == [("system", "Be short."), ("user", "one")]
    second = following(first, "served")
    assert said(second) == [*said(first), ("assistant", "served"), ("user", "two")]
    third = following(second, "not this")
    assert said(third) == [*said(second), ("assistant", "scripted"), ("user", "three")]
    assert following(third, "x") is following(single, "x") is None
    places = [(r.index, r.turn) for r in (first, second, third, single)]
    assert places == [(0, 0), (1, 1), (2, 2), (3, 0)]
    assert len({r.request_id for r in (first, second, third, single)}) == 4
    salts = {body(r.wire)["cache_salt"] for r in (first, second, third)}
    assert len(salts) == 1


def test_a_conversation_goes_on_in_another_process() -> None:
    (first,) = measured([TALK], 1, wording())
    sent = pickle.loads(pickle.dumps(first))
    assert following(sent, "served") == following(first, "served")


def test_a_failed_answer_ends_a_conversation_unless_the_script_has_its_own() -> None:
    (first,) = measured([TALK], 1, wording())
    assert following(first, None) is None
    assert following(following(first, "served"), None) is not None
    assert said(following(first, ""))[2] == ("assistant", "")


def test_a_window_is_cut_short_when_something_sendable_was_not_sent() -> None:
    requests = measured([TALK, PROMPTS[0]], 2, wording())

    def seen(name: str, turn: int, **changes: object) -> RequestRow:
        return row(prompt_id=name, turn=turn, **changes)

    whole = [seen("talk", 0), seen("talk", 1), seen("talk", 2), seen("p0", 0)]
    assert not cut_short(requests, whole)
    assert cut_short(requests, whole[:3])
    assert cut_short(requests, [whole[0], whole[3]])
    # The first answer failed: nothing could follow. The second has a script to go on with.
    assert not cut_short(requests, [seen("talk", 0, status="timeout"), whole[3]])
    assert cut_short(requests, [whole[0], seen("talk", 1, status="timeout"), whole[3]])


def test_every_request_has_a_seed_of_its_own_that_arms_share() -> None:
    def seeds(salt: str) -> list[int]:
        asked = attrs.evolve(wording(temperature=1, seed=4), salt=salt)
        return [body(r.wire)["seed"] for r in measured(PROMPTS, 10, asked)]

    assert seeds("run/b01-01-baseline-a1/cell") == seeds("run/b01-02-ngram-a1/cell")
    assert len(set(seeds("x"))) == 10
    assert all(0 <= seed < 2**31 for seed in seeds("x"))
    (first,) = measured([TALK], 1, wording(seed=4))
    assert body(first.wire)["seed"] != body(following(first, "x").wire)["seed"]


@pytest.mark.parametrize("thinking", [True, False])
def test_thinking_is_asked_of_the_chat_template(thinking: bool) -> None:
    sent = body(measured(PROMPTS, 1, wording(thinking=thinking))[0].wire)
    assert sent["chat_template_kwargs"] == {"enable_thinking": thinking, "thinking": thinking}
    assert "chat_template_kwargs" not in body(measured(PROMPTS, 1, wording())[0].wire)


def test_a_warm_cache_is_filled_by_the_measured_prompts_under_one_salt() -> None:
    asked = attrs.evolve(wording(), shared_salt="run/deployment")
    fill = [body(r.wire) for r in filling([*PROMPTS, TALK], asked)]
    sent = [body(r.wire) for r in measured([*PROMPTS, TALK], 12, asked)]
    assert [f["messages"] for f in fill] == [s["messages"] for s in sent[:6]]
    assert {f["max_tokens"] for f in fill} == {1}
    assert len({item["cache_salt"] for item in [*fill, *sent]}) == 1


def test_conversations_are_warmed_by_single_requests() -> None:
    waves = warming([TALK, PROMPTS[0]], 4, 0, wording())
    assert [following(r, "x") for r in waves] == [None] * 4
