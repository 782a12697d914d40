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
from specbench.facts import RequestRow


@attrs.frozen(kw_only=True)
class TimedRequest:
    """One request, ready for the socket."""

    request_id: str
    index: int
    prompt_id: str
    pass_index: int
    turn: int = 0
    wire: bytes
    """Head and body as they are sent."""
    talk: Talk | None = None
    """The conversation that it is a turn of."""


@attrs.frozen(kw_only=True)
class Wording:
    """What all requests of a cell share."""

    host: str
    path: str
    """What a request line names: a path, or the whole URL for a proxy that forwards."""
    model: str
    sampling: Sampling
    headers: Mapping[str, str] = attrs.field(factory=dict)
    """More headers, such as an authorization."""
    salt: str
    """Put into every request's id and cache_salt, so that no cell warms another's prefix cache."""
    shared_salt: str | None = None
    """Salts every request alike instead, so that cells and passes do warm one another."""
    top_logprobs: int | None = None
    """Likeliest tokens of each place to ask for with their log-probabilities: never when timed."""


@attrs.frozen(kw_only=True)
class Talk:
    """A conversation up to one of its turns."""

    prompt: Prompt
    messages: tuple[Message, ...]
    """Everything said until this turn's words of the user, these included."""
    wording: Wording


def shuffled(prompts: Sequence[Prompt], seed: int) -> list[Prompt]:
    """Give the one seeded order in which every load point of a stratum sends its prompts."""
    return random.Random(seed).sample(list(prompts), len(prompts))  # noqa: S311 - no secret


def measured(prompts: Sequence[Prompt], count: int, wording: Wording) -> list[TimedRequest]:
    """Give `count` requests in whole passes over the prompts, each pass salted on its own.

    Of a conversation this is the first turn; its later ones have the indices after it.
    """
    found, index = [], 0
    for place in range(count):
        prompt = prompts[place % len(prompts)]
        found.append(_request(prompt, index, place // len(prompts), wording))
        index += len(prompt.turns) or 1
    return found


def following(request: TimedRequest, answer: str | None) -> TimedRequest | None:
    """Give the next turn of a request's conversation, upon the served answer or the script's own.

    None when there is none: the conversation is over, or the answer that it builds on failed.
    """
    talk, turn = request.talk, request.turn + 1
    if talk is None or turn >= len(talk.prompt.turns):
        return None
    scripted = talk.prompt.turns[request.turn].assistant
    said = answer if scripted is None else scripted
    if said is None:
        return None
    messages = (
        *talk.messages,
        Message(role="assistant", content=said),
        Message(role="user", content=talk.prompt.turns[turn].user),
    )
    talk = attrs.evolve(talk, messages=messages)
    return _turn(talk, request.index + 1, request.pass_index, turn)


def cut_short(requests: Sequence[TimedRequest], rows: Sequence[RequestRow]) -> bool:
    """Tell whether a window ended before everything was sent that could be."""
    last: dict[tuple[str, int], RequestRow] = {}
    for row in rows:
        key = (row.prompt_id, row.pass_index)
        if key not in last or last[key].turn < row.turn:
            last[key] = row
    for request in requests:
        end = last.get((request.prompt_id, request.pass_index))
        if end is None:
            return True
        turns = request.talk.prompt.turns if request.talk else ()
        goes_on = end.status == "ok" or (turns and turns[end.turn].assistant is not None)
        if goes_on and end.turn + 1 < len(turns):
            return True
    return False


def filling(prompts: Sequence[Prompt], wording: Wording) -> list[TimedRequest]:
    """Give requests that put every prompt into a warm prefix cache, and generate hardly anything.

    Of a conversation it is the first turn: what later ones say depends on answers.
    """
    short = [attrs.evolve(p, messages=p.opening(), turns=(), max_tokens=1) for p in prompts]
    return measured(short, len(short), wording)


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
    *earlier, last = head.opening()
    said = tail.opening()[-1].content
    lines = last.content.splitlines(keepends=True)
    others = said.splitlines(keepends=True)
    if min(len(lines), len(others)) < 4:  # noqa: PLR2004 - too few lines: cut between words
        lines = [f"{word} " for word in last.content.split()]
        others = [f"{word} " for word in said.split()]
    content = "".join([*others[len(others) // 2 :], *lines[: (len(lines) + 1) // 2]])
    spliced = (*earlier, Message(role=last.role, content=content))
    return attrs.evolve(head, messages=spliced, turns=())


def _request(prompt: Prompt, index: int, pass_index: int, wording: Wording) -> TimedRequest:
    talk = Talk(prompt=prompt, messages=prompt.opening(), wording=wording)
    return _turn(talk, index, pass_index, 0)


def _turn(talk: Talk, index: int, pass_index: int, turn: int) -> TimedRequest:
    wording = talk.wording
    request_id = f"{wording.salt}-{index}".replace("/", "-")
    body = msgspec.json.encode(_body(talk, pass_index, turn))
    head = (
        f"POST {wording.path} HTTP/1.1\r\nHost: {wording.host}\r\n"
        f"Content-Type: application/json\r\nAccept: text/event-stream\r\n"
        f"X-Request-Id: {request_id}\r\nContent-Length: {len(body)}\r\n"
    )
    head += "".join(f"{name}: {value}\r\n" for name, value in wording.headers.items()) + "\r\n"
    return TimedRequest(
        request_id=request_id,
        index=index,
        prompt_id=talk.prompt.id,
        pass_index=pass_index,
        turn=turn,
        wire=head.encode() + body,
        talk=talk if talk.prompt.turns else None,
    )


def request_seed(seed: int, prompt_id: str, pass_index: int, turn: int) -> int:
    """Give a request's own seed, the same in every arm, below 2^31."""
    text = f"{seed}/{prompt_id}/{pass_index}/{turn}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) >> 1


def _body(talk: Talk, pass_index: int, turn: int) -> dict[str, Any]:
    wording, prompt = talk.wording, talk.prompt
    sampling = wording.sampling
    body: dict[str, Any] = {
        "model": wording.model,
        "messages": [attrs.asdict(message) for message in talk.messages],
        "max_tokens": prompt.max_tokens,
        "temperature": sampling.temperature,
        "stream": True,
        "stream_options": {"include_usage": True},
        # Exact tokens of every event, and events for tokens that make no text yet.
        "return_token_ids": True,
        "cache_salt": (
            cache_salt(wording.salt, pass_index)
            if wording.shared_salt is None
            else cache_salt(wording.shared_salt, 0)
        ),
    }
    optional = {"top_p": sampling.top_p, "top_k": sampling.top_k}
    body |= {key: value for key, value in optional.items() if value is not None}
    if sampling.seed is not None:
        body["seed"] = request_seed(sampling.seed, prompt.id, pass_index, turn)
    if sampling.thinking is not None:
        # Templates name it in two ways, and take no notice of the other.
        names = ("enable_thinking", "thinking")
        body["chat_template_kwargs"] = dict.fromkeys(names, sampling.thinking)
    if sampling.ignore_eos:
        body["ignore_eos"] = True
    if wording.top_logprobs is not None:
        body |= {
            "logprobs": True,
            "top_logprobs": wording.top_logprobs,
            "return_tokens_as_token_ids": True,
        }
    return body
