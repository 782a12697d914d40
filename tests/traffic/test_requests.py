from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.experiment.model import Sampling
from specbench.experiment.prompt import Message, Prompt
from specbench.traffic.requests import Wording, cache_salt, measured, shuffled, warming


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
    assert (said["top_p"], said["seed"], said["ignore_eos"]) == (0.9, 4, True)


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
