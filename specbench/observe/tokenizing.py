"""A running server's own tokens of a prompt, its chat template included."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import attrs
import httpx

from specbench.errors import DeploymentError
from specbench.experiment.prompt import Prompt

TIMEOUT_S = 30.0


def server_tokens(base_url: str, prompts: Sequence[Prompt]) -> Iterator[array[int]]:
    """Give the token ids of each prompt's first request, from `POST /tokenize` (vLLM 0.11 to 0.33).

    Raises:
        DeploymentError: The server does not answer, or has no such path.
    """
    base_url = base_url.rstrip("/")
    with httpx.Client(trust_env=False, timeout=TIMEOUT_S) as client:
        model = _asked(client, "GET", f"{base_url}/v1/models", None)["data"][0]["id"]
        for prompt in prompts:
            messages = [attrs.asdict(message) for message in prompt.opening()]
            body = {"model": model, "messages": messages}
            yield array("I", _asked(client, "POST", f"{base_url}/tokenize", body)["tokens"])


def _asked(client: httpx.Client, method: str, url: str, body: Any) -> Any:
    try:
        return client.request(method, url, json=body).raise_for_status().json()
    except (httpx.HTTPError, ValueError) as error:
        hint = "name a running vLLM server, or a tokenizer with --tokenizer"
        said = f"{url} gave no tokens: {error}"
        raise DeploymentError(said, kind="no_tokenize", hint=hint) from error
