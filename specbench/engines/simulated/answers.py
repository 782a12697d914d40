"""One chat request inside the simulated server: its body read, and its bytes written."""

from __future__ import annotations

from typing import Any

import attrs

from specbench.engines.simulated import error_bodies, stream_events
from specbench.engines.simulated.http_server import Reply
from specbench.engines.simulated.scheduler import Emission
from specbench.engines.simulated.script import Script
from specbench.engines.simulated.served import Served
from specbench.engines.simulated.stream_events import ChatStream, TokenLogprob, VerifiedDrafts
from specbench.engines.simulated.text import token_id

REASONING_SHARE = 1 / 3
"""How much of an answer a reasoning parser takes for reasoning."""
DEFAULT_MAX_TOKENS = 256


@attrs.frozen(kw_only=True)
class Ask:
    """What a chat request asks for."""

    prompt: str
    max_tokens: int
    stream: bool
    with_usage: bool
    with_token_ids: bool
    ignore_eos: bool
    sampled: str
    """What makes this sample differ from others; empty for greedy."""
    salt: str
    top_logprobs: int | None
    tokens_as_ids: bool
    thinking: bool


def ask(body: dict[str, Any], request_id: str) -> Ask:
    """Read the body of a chat request.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: It is none.
    """
    temperature = float(body.get("temperature") or 0)
    cap = body.get("max_tokens") or body.get("max_completion_tokens") or DEFAULT_MAX_TOKENS
    template = body.get("chat_template_kwargs") or {}
    return Ask(
        prompt="\n".join(str(message.get("content") or "") for message in body["messages"]),
        max_tokens=int(cap),
        stream=bool(body.get("stream")),
        with_usage=bool((body.get("stream_options") or {}).get("include_usage")),
        with_token_ids=bool(body.get("return_token_ids")),
        ignore_eos=bool(body.get("ignore_eos")),
        sampled=f"{temperature:g}/{body.get('seed', request_id)}" if temperature else "",
        salt=str(body.get("cache_salt") or ""),
        top_logprobs=int(body.get("top_logprobs") or 0) if body.get("logprobs") else None,
        tokens_as_ids=bool(body.get("return_tokens_as_token_ids")),
        thinking=bool(template.get("enable_thinking", True)),
    )


class Answer:
    """Writes what a request gets. It knows no clock and no scheduler."""

    def __init__(
        self,
        served: Served,
        asked: Ask,
        script: Script,
        *,
        request_id: str,
        created: int,
        reply: Reply | None,
    ) -> None:
        self.request_id = request_id
        self.script = script
        self.asked = asked
        self.reply = reply
        """None for traffic of nobody's."""
        self.drafted: list[int] = []
        self.accepted: list[int] = []
        self._served = served
        self._created = created
        self._reasoning = served.reasoning and asked.thinking
        self._thought = round(script.length * REASONING_SHARE) if self._reasoning else 0
        self._stream = ChatStream(
            served,
            request_id=request_id,
            created=created,
            with_token_ids=asked.with_token_ids,
        )

    def took(self, emission: Emission) -> None:
        """Note what a step drafted for this request, where requests have metrics of their own."""
        if emission.drafted:
            self.drafted.append(emission.drafted)
            self.accepted.append(emission.accepted)

    def event(self, emission: Emission) -> bytes:
        """Give the event of one step, after the one that names the role if it is the first."""
        first, end = emission.first, emission.first + emission.tokens
        said = self.script.answer.between(first, end)
        event = self._stream.tokens(
            "".join(said),
            [token_id(token) for token in said],
            reasoning=first < self._thought,
            logprobs=self._logprobs(range(first, end)),
            finish_reason=self.script.finish_reason if emission.ended else None,
        )
        if first:
            return event
        ids = [token_id(token) for token in self.script.prompt] if self.asked.with_token_ids else []
        return self._stream.first(ids) + event

    def end(self, *, usage: bool) -> bytes:
        """Give what follows the last tokens."""
        if not (usage and self.asked.with_usage):
            return stream_events.DONE
        told = self._stream.usage(
            prompt_tokens=self.script.prompt_tokens,
            completion_tokens=self.script.length,
            verified=self._verified(),
        )
        return told + stream_events.DONE

    def whole(self) -> bytes:
        """Give the body of an answer that is not streamed."""
        said = self.script.answer.between(0, self.script.length)
        return stream_events.answer(
            self._served,
            request_id=self.request_id,
            created=self._created,
            text="".join(said[self._thought :]),
            reasoning="".join(said[: self._thought]) or None,
            finish_reason=self.script.finish_reason,
            prompt_tokens=self.script.prompt_tokens,
            completion_tokens=self.script.length,
            token_ids=[token_id(token) for token in said] if self.asked.with_token_ids else None,
            logprobs=self._logprobs(range(self.script.length)),
            verified=self._verified(),
        )

    def failure(self) -> bytes:
        """Give an error inside the stream, and its end."""
        return error_bodies.failure_event(500, "simulated fault") + stream_events.DONE

    def _logprobs(self, places: range) -> list[TokenLogprob] | None:
        top, said = self.asked.top_logprobs, self.script.answer
        if top is None:
            return None
        named = _by_id if self.asked.tokens_as_ids else str
        return [
            TokenLogprob(
                text=named(said.between(place, place + 1)[0]),
                logprob=said.candidates(place)[said.rank(place)][1],
                others=tuple(
                    (named(token), logprob) for token, logprob in said.candidates(place)[:top]
                ),
            )
            for place in places
        ]

    def _verified(self) -> VerifiedDrafts | None:
        if not self._served.depth:
            return None
        return VerifiedDrafts(drafted=tuple(self.drafted), accepted=tuple(self.accepted))


def _by_id(token: str) -> str:
    """Give a token as vLLM names it upon `return_tokens_as_token_ids`."""
    return f"token_id:{token_id(token)}"


def refusal(served: Served, body: dict[str, Any]) -> tuple[int, bytes] | None:
    """Give status and body of a request that vLLM refuses before it looks at the prompt."""
    if body.get("model") != served.name:
        return 404, error_bodies.wrong_model(served, asked=str(body.get("model")))
    cap = body.get("max_tokens")
    if isinstance(cap, int) and cap > served.max_model_len:
        return 400, error_bodies.too_many(served, max_tokens=cap)
    return None
