"""Bodies of refused and failed requests, in vLLM's shape and words. Pure.

Two were captured on 0.32.0: a prompt that is too long and a model that is not served. The others
are as its sources have them; those of 0.23.0 are taken to be the same.
"""

from __future__ import annotations

from http import HTTPStatus

import msgspec

from specbench.engines.simulated.served import Served


def error(status: int, message: str, *, param: str | None = None) -> bytes:
    """Give the body of an error; its type is vLLM's name of the status."""
    kind = HTTPStatus(status).phrase.replace(" ", "").removesuffix("Error") + "Error"
    return _body(message, kind=kind, param=param, status=status)


def too_long(served: Served, *, prompt_tokens: int) -> bytes:
    """Give the 400 of a prompt that does not fit."""
    # vLLM stops counting one token past the limit, and says so.
    counted = min(prompt_tokens, served.max_model_len + 1)
    said = (
        f"This model's maximum context length is {served.max_model_len} tokens. However, your "
        f"prompt contains at least {counted} input tokens, which exceeds this limit even without "
        "any output tokens. Please reduce the length of the input prompt. "
        f"(parameter=input_tokens, value={counted})"
    )
    return error(400, said, param="input_tokens")


def too_many(served: Served, *, max_tokens: int) -> bytes:
    """Give the 400 of more output tokens than the model can have."""
    said = (
        f"max_tokens={max_tokens} cannot be greater than max_model_len={served.max_model_len}. "
        f"Please request fewer output tokens. (parameter=max_tokens, value={max_tokens})"
    )
    return error(400, said, param="max_tokens")


def wrong_model(served: Served, *, asked: str) -> bytes:
    """Give the 404 of a model that is not served."""
    known = "" if served.version == "0.23.0" else f" Valid aliases: {served.name}."
    return error(404, f"The model `{asked}` does not exist.{known}", param="model")


def engine_dead() -> bytes:
    """Give the 500 of a request whose engine died (vllm/v1/engine/exceptions.py)."""
    return error(
        500,
        "EngineCore encountered an issue. See stack trace (above) for the root cause.",
    )


def unavailable() -> bytes:
    """Give the 503 of a full queue (vllm/exceptions.py:QueueOverflowError, 0.32).

    Alone among vLLM's errors its type is the status in words.
    """
    said = (
        "The engine is currently busy and cannot accept new requests. Please try again later or on "
        "a different instance."
    )
    return _body(said, kind=HTTPStatus.SERVICE_UNAVAILABLE.phrase, param=None, status=503)


def failure_event(status: int, message: str) -> bytes:
    """Give the error that stands in a stream whose head was already sent; `DONE` follows."""
    return b"data: " + error(status, message) + b"\n\n"


def _body(message: str, *, kind: str, param: str | None, status: int) -> bytes:
    told = {"message": message, "type": kind, "param": param, "code": status}
    return msgspec.json.encode({"error": told})
