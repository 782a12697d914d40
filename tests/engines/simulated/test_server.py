"""The simulated server as a process, over HTTP."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from specbench.engines.simulated import text
from specbench.launchers.local import free_port
from specbench.observe.metrics import parse
from specbench.traffic.server_events import EventSplitter, decode

CODE = "def add(a, b):\n    return a + b\n\ndef subtract(a, b):\n"


class Running:
    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def post(self, said: str, **more: Any) -> httpx.Response:
        body = {"model": "target", "messages": [{"role": "user", "content": said}], **more}
        return httpx.post(f"{self.url}/v1/chat/completions", json=body, trust_env=False, timeout=20)

    def whole(self, said: str, **more: Any) -> dict[str, Any]:
        return self.post(said, **more).json()  # type: ignore[no-any-return]

    def streamed(self, said: str, **more: Any) -> list[dict[str, Any]]:
        body = self.post(said, stream=True, **more).content
        datas = EventSplitter().feed(body)
        assert datas[-1] == b"[DONE]"
        for data in datas[:-1]:
            decode(data)
        return [json.loads(data) for data in datas[:-1]]

    def series(self, name: str) -> dict[str, float]:
        page = httpx.get(f"{self.url}/metrics", trust_env=False).text
        return {
            dict(labels).get("engine", ""): value
            for (found, labels), value in parse(page).series.items()
            if found == name
        }


@contextmanager
def running(*flags: str, speculation: dict[str, Any] | None = None) -> Iterator[Running]:
    port = free_port()
    argv = [sys.executable, "-m", "specbench.engines.simulated.server", "--model", "toy"]
    argv += ["--port", str(port), "--speed", "20", *flags]
    argv += ["--speculative-config", json.dumps(speculation)] if speculation else []
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        # The routes are the last thing logged; the socket is bound right after.
        for line in process.stdout:
            if "v1/chat/completions" in line:
                break
        answering = httpx.Client(
            transport=httpx.HTTPTransport(retries=8), trust_env=False, timeout=20
        )
        with answering:
            answering.get(f"http://127.0.0.1:{port}/health")
        try:
            yield Running(port)
        finally:
            process.terminate()
            assert process.wait(timeout=20) == 0


@pytest.fixture(scope="module")
def plain() -> Iterator[Running]:
    with running() as server:
        yield server


@pytest.fixture(scope="module")
def ngram() -> Iterator[Running]:
    asked = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}
    with running(
        "--per-request-spec-decode-metrics",
        "detailed",
        speculation={**asked, "prompt_lookup_min": 2},
    ) as server:
        yield server


def test_streamed_whole_and_speculative_answers_are_the_same_text(
    plain: Running, ngram: Running
) -> None:
    asked = {"max_tokens": 60, "temperature": 0}
    whole = plain.whole(CODE, **asked)["choices"][0]
    for server in (plain, ngram):
        events = server.streamed(CODE, **asked)
        said = "".join(
            choice["delta"].get("content", "") for event in events for choice in event["choices"]
        )
        assert said == whole["message"]["content"]
        assert events[-1]["choices"][0]["finish_reason"] == whole["finish_reason"]


def test_token_ids_are_those_of_the_text_and_usage_counts_them(plain: Running) -> None:
    events = plain.streamed(
        CODE, max_tokens=40, return_token_ids=True, stream_options={"include_usage": True}
    )
    ids = [
        i for event in events for choice in event["choices"] for i in choice.get("token_ids") or []
    ]
    said = "".join(
        choice["delta"].get("content", "") for event in events for choice in event["choices"]
    )
    assert ids == [text.token_id(token) for token in text.tokenize(said)]
    assert events[-1]["usage"]["completion_tokens"] == len(ids)
    assert events[-1]["usage"]["prompt_tokens"] == len(text.tokenize(CODE))
    assert events[0]["prompt_token_ids"] == [text.token_id(token) for token in text.tokenize(CODE)]


def test_the_counters_are_those_of_the_requests_own_metrics(ngram: Running) -> None:
    names = ("num_drafts", "num_draft_tokens", "num_accepted_tokens")
    before = [ngram.series(f"vllm:spec_decode_{name}_total")["0"] for name in names]
    told = ngram.streamed(CODE, max_tokens=80, stream_options={"include_usage": True})[-1]
    after = [ngram.series(f"vllm:spec_decode_{name}_total")["0"] for name in names]
    own = told["metrics"]["speculative_decoding"]
    assert [b - a for a, b in zip(before, after, strict=True)] == [
        own["num_spec_steps"],
        own["num_draft_tokens"],
        own["num_accepted_draft_tokens"],
    ]
    assert own["num_accepted_draft_tokens"] > 0
    assert sum(own["per_step_drafted"]) == own["num_draft_tokens"]


def test_log_probabilities_come_with_the_five_likeliest(plain: Running) -> None:
    answer = plain.whole(CODE, max_tokens=20, logprobs=True, top_logprobs=5)
    content = answer["choices"][0]["logprobs"]["content"]
    assert len(content) == answer["usage"]["completion_tokens"]
    for token in content:
        assert token["top_logprobs"][0]["token"] == token["token"]
        assert token["top_logprobs"][0]["logprob"] == token["logprob"]
        assert len(token["top_logprobs"]) == 5


def test_a_sampled_answer_follows_its_seed(plain: Running) -> None:
    def said(**more: Any) -> str:
        answer = plain.whole("Tell me of the sea.", max_tokens=30, **more)
        return answer["choices"][0]["message"]["content"]  # type: ignore[no-any-return]

    assert said(temperature=0) == said(temperature=0, seed=5)
    assert said(temperature=1, seed=5) == said(temperature=1, seed=5)
    assert len({said(temperature=1, seed=seed) for seed in range(4)}) == 4


def test_ignore_eos_goes_on_to_the_cap(plain: Running) -> None:
    choice = plain.whole("Tell me of the wind.", max_tokens=50, ignore_eos=True)
    assert choice["usage"]["completion_tokens"] == 50
    assert choice["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"model": "nope"}, 404, "NotFoundError"),
        ({"max_tokens": 10**6}, 400, "BadRequestError"),
        ({"messages": 3}, 400, "BadRequestError"),
    ],
)
def test_refused_requests_say_why_as_vllm_does(
    plain: Running, body: dict[str, Any], status: int, kind: str
) -> None:
    answer = plain.post("x", **body)
    assert answer.status_code == status
    assert answer.json()["error"]["type"] == kind


def test_a_prompt_beyond_the_context_is_refused() -> None:
    with running("--max-model-len", "32") as server:
        answer = server.post("word " * 40, max_tokens=4)
    assert answer.status_code == 400
    assert "maximum context length is 32" in answer.json()["error"]["message"]


def test_a_reasoning_parser_splits_the_answer_unless_thinking_is_off() -> None:
    with running("--reasoning-parser", "any") as server:
        events = server.streamed(CODE, max_tokens=30, ignore_eos=True)
        keys = [key for event in events for key in event["choices"][0]["delta"] if key != "role"]
        assert keys == ["content"] + ["reasoning"] * 10 + ["content"] * 20
        off = server.streamed(CODE, max_tokens=9, chat_template_kwargs={"enable_thinking": False})
        assert all("reasoning" not in event["choices"][0]["delta"] for event in off)


def test_data_parallel_engines_share_the_requests_and_count_apart() -> None:
    with running("--data-parallel-size", "2") as server:
        for place in range(4):
            server.whole(f"Question {place}", max_tokens=5, ignore_eos=True)
        tokens = server.series("vllm:generation_tokens_total")
    assert set(tokens) == {"0", "1"}
    assert sum(tokens.values()) == 20


def test_a_prompt_asked_again_is_found_in_the_prefix_cache_unless_salted(plain: Running) -> None:
    prompt = "The same long question again and again. " * 10

    def hits(salt: str) -> float:
        before = plain.series("vllm:prefix_cache_hits_total")["0"]
        plain.whole(prompt, max_tokens=3, cache_salt=salt)
        return plain.series("vllm:prefix_cache_hits_total")["0"] - before

    assert hits("one") == 0
    # 80 tokens are 5 blocks of 16, and the last token is always computed.
    assert len(text.tokenize(prompt)) == 81
    assert hits("one") == 80
    assert hits("two") == 0


def test_a_client_that_goes_away_frees_its_place(plain: Running) -> None:
    body = {
        "model": "target",
        "stream": True,
        "ignore_eos": True,
        "max_tokens": 20_000,
        "messages": [{"role": "user", "content": "For ever."}],
    }
    url = f"{plain.url}/v1/chat/completions"
    with httpx.stream("POST", url, json=body, trust_env=False) as answer:
        # Kept, because a forgotten iterator would close the stream.
        lines = answer.iter_lines()
        next(lines)
        assert plain.series("vllm:num_requests_running")["0"] == 1
    for _ in range(1000):
        if plain.series("vllm:num_requests_running")["0"] == 0:
            break
    assert plain.series("vllm:num_requests_running")["0"] == 0


def test_the_server_tells_how_late_it_was(plain: Running) -> None:
    plain.whole("Hello", max_tokens=20, ignore_eos=True)
    assert plain.series("simulated:steps_total")["0"] >= 20
    assert plain.series("simulated:late_steps_total")["0"] >= 0
    assert plain.series("simulated:worst_lateness_seconds")[""] >= 0


def test_wrong_arguments_end_the_launch_with_a_reason() -> None:
    argv = [sys.executable, "-m", "specbench.engines.simulated.server", "--model", "toy"]
    done = subprocess.run(
        [*argv, "--fault", "explode=3"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no fault 'explode'" in done.stderr


def test_a_refused_launch_logs_vllms_words_and_exits(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "specbench.engines.simulated.server", "--model", "toy"]
    speculation = '{"method": "ngram", "num_speculative_tokens": 0}'
    done = subprocess.run(
        [*argv, "--speculative-config", speculation],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert "num_speculative_tokens" in done.stdout
