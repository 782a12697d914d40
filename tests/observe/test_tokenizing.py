from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from specbench.errors import DeploymentError
from specbench.experiment.prompt import Message, Prompt, Turn
from specbench.observe.tokenizing import server_tokens


class Tokenizes(BaseHTTPRequestHandler):
    """Answers as vLLM does: a token for each message, and one of the template."""

    def do_GET(self) -> None:
        self._say({"data": [{"id": "target"}]} if self.path == "/v1/models" else {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        assert (self.path, body["model"]) == ("/tokenize", "target")
        self._say({"tokens": [7, *(len(m["content"]) for m in body["messages"])]})

    def _say(self, value: object) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Tokenizes) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def prompt(**said: object) -> Prompt:
    return Prompt(id="p", stratum="s", max_tokens=1, source="t", licence="x", **said)  # type: ignore[arg-type]


def test_a_server_tokenizes_the_messages_of_first_requests(url: str) -> None:
    prompts = [
        prompt(messages=(Message(role="user", content="four"),)),
        prompt(
            messages=(Message(role="system", content="ab"),),
            turns=(Turn(user="one"), Turn(user="second")),
        ),
    ]
    assert [ids.tolist() for ids in server_tokens(url, prompts)] == [[7, 4], [7, 2, 3]]


def test_a_server_that_is_not_there_is_named() -> None:
    with pytest.raises(DeploymentError, match=r"127\.0\.0\.1:1/v1/models gave no tokens"):
        list(server_tokens("http://127.0.0.1:1", [prompt()]))
