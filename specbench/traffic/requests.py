"""Prompts to the bytes of requests, made before the window: nothing is encoded in it. Pure."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import msgspec

from specbench.experiment.model import Sampling
from specbench.experiment.prompt import Message, Prompt


@attrs.frozen(kw_only=True)
class TimedRequest:
    """One request, ready for the socket."""

    request_id: str
    index: int
    prompt_id: str
    pass_index: int
    wire: bytes
    """Head and body as they are sent."""


@attrs.frozen(kw_only=True)
class Wording:
    """What all requests of a cell share."""

    host: str
    path: str
    model: str
    sampling: Sampling
    headers: Mapping[str, str] = attrs.field(factory=dict)
    """More headers, such as an authorization."""
    salt: str
    """Put into every request's cache_salt, so that no cell warms another's prefix cache."""


def shuffled(prompts: Sequence[Prompt], seed: int) -> list[Prompt]:
    """Give the one seeded order in which every load point of a stratum sends its prompts."""
    return random.Random(seed).sample(list(prompts), len(prompts))  # noqa: S311 - no secret


def measured(prompts: Sequence[Prompt], count: int, wording: Wording) -> list[TimedRequest]:
    """Give `count` requests in whole passes over the prompts, each pass salted on its own."""
    return [
        _request(prompts[index % len(prompts)], index, index // len(prompts), wording)
        for index in range(count)
    ]


def warming(
    prompts: Sequence[Prompt], count: int, wave: int, wording: Wording
) -> list[TimedRequest]:
    """Give requests of the cell's shape on prompts that are not measured.

    Each is the second half of the next prompt's last message, then the first half of its own, so
    that lengths and language stay those of the cell.
    """
    spliced = [
        _spliced(prompts[place], prompts[(place + 1) % len(prompts)])
        for place in range(len(prompts))
    ]
    first = wave * count
    return [
        _request(spliced[index % len(spliced)], index, index // len(spliced), wording)
        for index in range(first, first + count)
    ]


def cache_salt(salt: str, pass_index: int) -> str:
    """Give the cache_salt of a pass, hashed: vLLM 0.32 takes 128 characters and no slash."""
    return hashlib.sha256(f"{salt}/{pass_index}".encode()).hexdigest()[:32]


def _spliced(head: Prompt, tail: Prompt) -> Prompt:
    *earlier, last = head.messages
    lines = last.content.splitlines(keepends=True)
    others = tail.messages[-1].content.splitlines(keepends=True)
    if min(len(lines), len(others)) < 4:  # noqa: PLR2004 - too few lines: cut between words
        lines = [f"{word} " for word in last.content.split()]
        others = [f"{word} " for word in tail.messages[-1].content.split()]
    content = "".join([*others[len(others) // 2 :], *lines[: (len(lines) + 1) // 2]])
    return attrs.evolve(head, messages=(*earlier, Message(role=last.role, content=content)))


def _request(prompt: Prompt, index: int, pass_index: int, wording: Wording) -> TimedRequest:
    request_id = f"{wording.salt}-{index}".replace("/", "-")
    body = msgspec.json.encode(_body(prompt, pass_index, wording))
    head = (
        f"POST {wording.path} HTTP/1.1\r\nHost: {wording.host}\r\n"
        f"Content-Type: application/json\r\nAccept: text/event-stream\r\n"
        f"X-Request-Id: {request_id}\r\nContent-Length: {len(body)}\r\n"
    )
    head += "".join(f"{name}: {value}\r\n" for name, value in wording.headers.items()) + "\r\n"
    return TimedRequest(
        request_id=request_id,
        index=index,
        prompt_id=prompt.id,
        pass_index=pass_index,
        wire=head.encode() + body,
    )


def _body(prompt: Prompt, pass_index: int, wording: Wording) -> dict[str, Any]:
    sampling = wording.sampling
    body: dict[str, Any] = {
        "model": wording.model,
        "messages": [attrs.asdict(message) for message in prompt.messages],
        "max_tokens": prompt.max_tokens,
        "temperature": sampling.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
        # Exact tokens of every event, and events for tokens that make no text yet.
        "return_token_ids": True,
        "cache_salt": cache_salt(wording.salt, pass_index),
    }
    optional = {"top_p": sampling.top_p, "top_k": sampling.top_k, "seed": sampling.seed}
    body |= {key: value for key, value in optional.items() if value is not None}
    if sampling.ignore_eos:
        body["ignore_eos"] = True
    return body
