"""Other load generators on the same work: what they say, against what the server did.

Each is measured where its command is installed and SPECBENCH_TOKENIZER names a tokenizer's folder,
as one worker on one core, which is not how those made to spread over cores do best.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
from reference_server import CLIENT_CORE, ReferenceServer, on_core

LIMIT_S = 180
Facts = dict[str, Any]


@attrs.frozen(kw_only=True)
class Peer:
    """A load generator: its command line, and where its result says the median TTFT."""

    name: str
    command: Callable[[str, str, int, int, int, Path], list[str]]
    """From URL, tokenizer, streams, requests, tokens and the folder of its result."""
    ttft_p50_ms: Callable[[Path], float]

    def measured(self, server: ReferenceServer, streams: int, requests: int, tokens: int) -> Facts:
        """Let it do the work, and compare what it says with what the server did."""
        with tempfile.TemporaryDirectory() as place:
            folder, tokenizer = Path(place), os.environ["SPECBENCH_TOKENIZER"]
            command = self.command(server.url, tokenizer, streams, requests, tokens, folder)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(
                on_core(CLIENT_CORE, command),
                check=True,
                timeout=LIMIT_S,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={**os.environ, "GUIDELLM__MAX_WORKER_PROCESSES": "1"},
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            said_ms = self.ttft_p50_ms(folder)
        truth = sorted(pair for pair in server.truth().values() if pair[1])[-requests:]
        truth_ms = statistics.median((sends[0] - got) / 1e6 for got, sends in truth)
        span_s = (max(sends[-1] for _, sends in truth) - truth[0][0]) / 1e9
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        events = len(truth) * (tokens + 3)
        return {
            # The whole run, start-up too: a peer's own window is not known from outside.
            "cpu_us_per_event": cpu_s / events * 1e6,
            "events_per_s": events / span_s,
            "requests_per_s": len(truth) / span_s,
            "ttft_error_p50_ms": said_ms - truth_ms,
        }


def installed_peers() -> Iterator[Peer]:
    """Give the peers that can be measured here."""
    if "SPECBENCH_TOKENIZER" not in os.environ:
        return
    for peer in PEERS:
        if shutil.which(peer.command("", "", 1, 1, 1, Path())[0]):
            yield peer


def _vllm(
    url: str, tokenizer: str, streams: int, requests: int, tokens: int, folder: Path
) -> list[str]:
    return [
        *("vllm", "bench", "serve", "--backend", "openai-chat", "--base-url", url),
        *("--endpoint", "/v1/chat/completions", "--model", "ref", "--tokenizer", tokenizer),
        *("--dataset-name", "random", "--random-input-len", "64"),
        *("--random-output-len", str(tokens), "--num-prompts", str(requests)),
        *("--max-concurrency", str(streams), "--save-result", "--result-dir", str(folder)),
        *("--result-filename", "r.json", "--percentile-metrics", "ttft,tpot,itl"),
        *("--metric-percentiles", "50,95", "--ignore-eos", "--disable-tqdm"),
    ]


def _guidellm(
    url: str, tokenizer: str, streams: int, requests: int, tokens: int, folder: Path
) -> list[str]:
    return [
        *("guidellm", "run", "--backend", f"kind=openai_http,target={url},model=ref"),
        *("--profile", f"kind=concurrent,streams={streams}"),
        *("--constraint", f"kind=max_requests,count={requests}"),
        *("--tokenizer", f"kind=huggingface_auto,model={tokenizer}"),
        *("--data", f"kind=synthetic_text,prompt_tokens=64,output_tokens={tokens}"),
        *("--output", f"kind=json,path={folder}/r.json"),
        *("--disable-console", "--disable-console-interactive"),
    ]


def _aiperf(
    url: str, tokenizer: str, streams: int, requests: int, tokens: int, folder: Path
) -> list[str]:
    return [
        *("aiperf", "profile", "-m", "ref", "-u", url, "--endpoint-type", "chat", "--streaming"),
        *("--concurrency", str(streams), "--request-count", str(requests), "--isl", "64"),
        *("--osl", str(tokens), "--tokenizer", tokenizer, "--extra-inputs", "ignore_eos:true"),
        *("--ui", "none", "--output-artifact-dir", str(folder), "--no-gpu-telemetry"),
        *("--no-server-metrics", "--workers-max", "1", "--record-processor-service-count", "1"),
    ]


def _inference_perf(
    url: str, tokenizer: str, streams: int, requests: int, tokens: int, folder: Path
) -> list[str]:
    del folder
    lengths = [
        part
        for kind in ("mean", "min", "max")
        for part in (
            *(f"--data.input_distribution.{kind}", "64"),
            *(f"--data.output_distribution.{kind}", str(tokens)),
        )
    ]
    stages = json.dumps([{"concurrency_level": streams, "num_requests": requests}])
    return [
        *("inference-perf", "--api.type", "completion", "--api.streaming", "true"),
        *("--server.type", "vllm", "--server.model_name", "ref", "--server.base_url", url),
        *("--tokenizer.pretrained_model_name_or_path", tokenizer, "--data.type", "random"),
        *lengths,
        *("--load.type", "concurrent", "--load.num_workers", "1"),
        *("--load.worker_max_concurrency", "4096", "--load.stages", stages),
    ]


def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


PEERS = (
    Peer(
        name="vllm bench serve",
        command=_vllm,
        ttft_p50_ms=lambda folder: _read(folder / "r.json")["p50_ttft_ms"],
    ),
    Peer(
        name="guidellm",
        command=_guidellm,
        ttft_p50_ms=lambda folder: _read(folder / "r.json")["benchmarks"][0]["metrics"][
            "time_to_first_token_ms"
        ]["successful"]["median"],
    ),
    Peer(
        name="aiperf",
        command=_aiperf,
        ttft_p50_ms=lambda folder: _read(folder / "profile_export_aiperf.json")[
            "time_to_first_token"
        ]["p50"],
    ),
    Peer(
        name="inference-perf",
        command=_inference_perf,
        ttft_p50_ms=lambda folder: (
            1e3
            * _read(next(folder.glob("reports-*/summary_lifecycle_metrics.json")))["successes"][
                "latency"
            ]["time_to_first_token"]["median"]
        ),
    ),
)
