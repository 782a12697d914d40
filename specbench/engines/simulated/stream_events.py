"""Bodies of chat answers as vLLM writes them: stream events and whole answers. Pure.

Shapes as captured on 0.23.0 and 0.32.0. A whole answer of 0.23.0 was not captured: it has the keys
of 0.32.0 without `metrics`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import msgspec

from specbench.engines.simulated.resolved import fingerprint
from specbench.engines.simulated.served import Served

DONE = b"data: [DONE]\n\n"

_encode = msgspec.json.Encoder().encode

_OPEN_CONTENT = b'{"index":0,"delta":{"content":'
_OPEN_REASONING = b'{"index":0,"delta":{"reasoning":'
_NO_LOGPROBS = b'},"logprobs":null,"finish_reason":null,"token_ids":'
_CLOSE = b"}]}\n\n"


@attrs.frozen(kw_only=True)
class TokenLogprob:
    """The log probability of one token, and of others at its place."""

    text: str
    logprob: float
    others: tuple[tuple[str, float], ...] = ()
    """What `top_logprobs` asked for, the most probable first."""


@attrs.frozen(kw_only=True)
class VerifiedDrafts:
    """What one request's drafts came to, step by step, before the cut at its end."""

    drafted: tuple[int, ...]
    accepted: tuple[int, ...]


class ChatStream:
    """The events of one streamed answer. What is the same in all of them is written once."""

    def __init__(
        self, served: Served, *, request_id: str, created: int, with_token_ids: bool
    ) -> None:
        self._served = served
        self._with_token_ids = with_token_ids
        head = _encode(
            {
                "id": f"chatcmpl-{request_id}",
                "object": "chat.completion.chunk",
                "created": created,
                "model": served.name,
            }
        )
        self._head = b"data: " + head[:-1] + b',"choices":['
        self._content = self._head + _OPEN_CONTENT
        self._reasoning = self._head + _OPEN_REASONING

    def first(self, prompt_token_ids: Sequence[int] | None = None) -> bytes:
        """Give the event that names the role. vLLM writes it with the first tokens."""
        ids = _encode(prompt_token_ids if self._with_token_ids else None)
        return (
            self._head
            + b'{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,'
            + b'"finish_reason":null}],"prompt_token_ids":'
            + ids
            + b',"prompt_text":null}\n\n'
        )

    def tokens(
        self,
        text: str,
        token_ids: Sequence[int],
        *,
        reasoning: bool = False,
        logprobs: Sequence[TokenLogprob] | None = None,
        finish_reason: str | None = None,
        stop_reason: str | int | None = None,
    ) -> bytes:
        """Give the event of one step's tokens; the last one has a finish reason."""
        opened = (self._reasoning if reasoning else self._content) + _encode(text)
        ids = _encode(token_ids) if self._with_token_ids else b"null"
        if finish_reason is None and logprobs is None:
            return opened + _NO_LOGPROBS + ids + _CLOSE
        return b"".join(
            (
                opened,
                b'},"logprobs":',
                _encode(None if logprobs is None else _logprobs(logprobs)),
                b',"finish_reason":',
                _encode(finish_reason),
                b"" if finish_reason is None else b',"stop_reason":' + _encode(stop_reason),
                b',"token_ids":',
                ids,
                _CLOSE,
            )
        )

    def usage(
        self,
        *,
        prompt_tokens: int,
        completion_tokens: int,
        cached_tokens: int | None = None,
        verified: VerifiedDrafts | None = None,
    ) -> bytes:
        """Give the event without choices. `cached_tokens` stands only where it is asked for."""
        tail: dict[str, Any] = {
            "usage": usage(prompt_tokens, completion_tokens),
            "system_fingerprint": system_fingerprint(self._served),
        }
        if cached_tokens is not None:
            tail["usage"]["prompt_tokens_details"] = {"cached_tokens": cached_tokens}
        metrics = request_metrics(self._served, verified)
        if metrics is not None:
            tail["metrics"] = {"speculative_decoding": metrics}
        return self._head + b"]," + _encode(tail)[1:] + b"\n\n"


def answer(
    served: Served,
    *,
    request_id: str,
    created: int,
    text: str,
    reasoning: str | None,
    finish_reason: str,
    prompt_tokens: int,
    completion_tokens: int,
    token_ids: Sequence[int] | None = None,
    prompt_token_ids: Sequence[int] | None = None,
    logprobs: Sequence[TokenLogprob] | None = None,
    verified: VerifiedDrafts | None = None,
) -> bytes:
    """Give the body of an answer that is not streamed."""
    message = {
        "role": "assistant",
        "content": text,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "reasoning": reasoning,
    }
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None if logprobs is None else _logprobs(logprobs),
        "finish_reason": finish_reason,
        "stop_reason": None,
        "token_ids": token_ids,
        "routed_experts": None,
    }
    details = {"prompt_tokens_details": None, "completion_tokens_details": None}
    body: dict[str, Any] = {
        "id": f"chatcmpl-{request_id}",
        "object": "chat.completion",
        "created": created,
        "model": served.name,
        "choices": [choice],
        "service_tier": None,
        "system_fingerprint": system_fingerprint(served),
        "usage": {**usage(prompt_tokens, completion_tokens), **details},
        "prompt_logprobs": None,
        "prompt_token_ids": prompt_token_ids,
        "prompt_text": None,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
    }
    if served.version != "0.23.0":
        body["metrics"] = _answer_metrics(served, verified)
    return _encode(body)


def usage(prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
    """Give exact token counts."""
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "completion_tokens": completion_tokens,
    }


def system_fingerprint(served: Served) -> str:
    """Give what tells one configuration from another, in vLLM's form."""
    return f"vllm-{served.version}-{fingerprint(served, 'system', digits=8)}"


def request_metrics(served: Served, verified: VerifiedDrafts | None) -> dict[str, Any] | None:
    """Give `speculative_decoding` of one request; None unless the server was started with it.

    vllm/v1/metrics/stats.py:RequestSpecDecodeStats.to_dict of 0.32: one step is one verified draft,
    and the steps themselves stand only with `detailed`.
    """
    if served.request_metrics == "none" or verified is None:
        return None
    steps, accepted = len(verified.accepted), sum(verified.accepted)
    drafted = sum(verified.drafted)
    found = Counter(verified.accepted)
    metrics: dict[str, Any] = {
        "mean_acceptance_length": 1.0 + accepted / steps if steps else 1.0,
        "draft_acceptance_rate": accepted / drafted if drafted else 0.0,
        "acceptance_histogram": [found[count] for count in range(served.depth + 1)],
        "num_spec_steps": steps,
        "num_accepted_draft_tokens": accepted,
        "num_draft_tokens": drafted,
        "num_spec_tokens": served.depth,
    }
    if served.request_metrics == "detailed" and steps:
        metrics["per_step_accepted"] = verified.accepted
        metrics["per_step_drafted"] = verified.drafted
    return metrics


def _answer_metrics(served: Served, verified: VerifiedDrafts | None) -> dict[str, Any] | None:
    metrics = request_metrics(served, verified)
    if metrics is None:
        return None
    steps = {"per_step_accepted": None, "per_step_drafted": None}
    times = (
        "time_to_first_token_ms",
        "generation_time_ms",
        "queue_time_ms",
        "mean_itl_ms",
        "tokens_per_second",
    )
    return {**dict.fromkeys(times), "speculative_decoding": {**steps, **metrics}}


def _logprobs(tokens: Sequence[TokenLogprob]) -> Mapping[str, Any]:
    return {
        "content": [
            {
                **_logprob(token.text, token.logprob),
                "top_logprobs": [_logprob(*other) for other in token.others],
            }
            for token in tokens
        ]
    }


def _logprob(text: str, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode())}
