"""Compares what specbench and `vllm bench serve` measure of one and the same real server.

    python benchmarks/against_vllm_bench.py --python VLLM_PYTHON --model CHECKPOINT

Both send the same prompts with temperature 0, the same cap and ignore_eos, and ask for token ids.
They take turns, five runs each. Medians must differ by at most 2%, or by the spread of a tool.
`vllm bench serve` needs pandas to read prompts.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import attrs

from specbench.experiment.load import Timeouts
from specbench.experiment.model import Sampling
from specbench.experiment.prompt import Prompt
from specbench.judge.cells import summarise
from specbench.traffic.drive import drive
from specbench.traffic.event_loop import event_loop_options
from specbench.traffic.loops import LoadPoint
from specbench.traffic.requests import Wording, measured
from specbench.workloads.read import read_workload

MODEL = "m"
LAUNCH_S = 240
LEAST_DIFFERENCE = 0.02
WORKLOAD = Path(__file__).parent.parent / "workloads" / "code.jsonl"


def main() -> None:
    """Launch a server, let both tools measure it in turn, and print what they say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", required=True, help="interpreter that has vLLM")
    parser.add_argument("--model", required=True, help="checkpoint with its tokenizer")
    parser.add_argument("--concurrency", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--prompts", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    prompts = [
        attrs.evolve(prompt, max_tokens=asked.tokens)
        for prompt in read_workload(WORKLOAD).prompts[: asked.prompts]
    ]
    found: dict[str, list[tuple[float, float]]] = {"specbench": [], "vllm bench serve": []}
    with serving(asked.python, asked.model) as url, tempfile.TemporaryDirectory() as folder:
        ours(url, prompts, asked.concurrency, "warm")
        for number in range(asked.rounds):
            salt = f"{time.time_ns()}"
            found["specbench"].append(ours(url, prompts, asked.concurrency, salt))
            found["vllm bench serve"].append(
                theirs(asked, url, prompts, Path(folder), f"{salt}-{number}")
            )
            print(f"round {number + 1}", found["specbench"][-1], found["vllm bench serve"][-1])
    holds = [
        compared(name, [[run[place] for run in runs] for runs in found.values()])
        for place, name in enumerate(("TPOT p50, ms", "throughput, tokens/s"))
    ]
    sys.exit(0 if all(holds) else 1)


def compared(name: str, values: list[list[float]]) -> bool:
    """Print two tools' medians and spreads of a quantity, and tell whether they agree."""
    (mine, other), spreads = (
        [statistics.median(runs) for runs in values],
        [(max(runs) - min(runs)) / statistics.median(runs) for runs in values],
    )
    allowed, difference = max(LEAST_DIFFERENCE, *spreads), abs(mine / other - 1)
    print(
        f"{name}: specbench {mine:.4g} (spread {spreads[0]:.1%}), vllm bench serve {other:.4g} "
        f"(spread {spreads[1]:.1%}), difference {difference:.2%}, allowed {allowed:.2%}: "
        f"{'agree' if difference <= allowed else 'DIFFER'}"
    )
    return difference <= allowed


def ours(url: str, prompts: list[Prompt], concurrency: int, salt: str) -> tuple[float, float]:
    """Give specbench's median TPOT in ms, and its throughput."""
    wording = Wording(
        host=url.removeprefix("http://"),
        path="/v1/chat/completions",
        model=MODEL,
        sampling=Sampling(name="greedy", ignore_eos=True),
        salt=salt,
    )
    point = LoadPoint(base_url=url, timeouts=Timeouts(), concurrency=concurrency)
    requests = measured(prompts, len(prompts), wording)
    window = anyio.run(drive, requests, point, backend_options=event_loop_options())
    said = summarise(window.rows, concurrency)
    if said.successes < said.requests or said.tpot_p50_s is None or not said.output_throughput:
        sys.exit(f"a request failed: {[row.error for row in window.rows if row.error][:1]}")
    return said.tpot_p50_s * 1e3, said.output_throughput


def theirs(
    asked: argparse.Namespace, url: str, prompts: list[Prompt], folder: Path, salt: str
) -> tuple[float, float]:
    """Give `vllm bench serve`'s median TPOT in ms, and its throughput."""
    lines = [json.dumps({"prompt": prompt.messages[-1].content}) for prompt in prompts]
    (folder / "prompts.jsonl").write_text("\n".join(lines) + "\n")
    body = {"cache_salt": salt, "return_token_ids": True}
    command = [
        *(str(Path(asked.python).with_name("vllm")), "bench", "serve"),
        *("--backend", "openai-chat", "--endpoint", "/v1/chat/completions", "--base-url", url),
        *("--model", MODEL, "--tokenizer", asked.model, "--dataset-name", "custom"),
        *("--dataset-path", str(folder / "prompts.jsonl"), "--skip-chat-template"),
        *("--disable-shuffle", "--num-prompts", str(len(prompts))),
        *("--custom-output-len", str(asked.tokens), "--max-concurrency", str(asked.concurrency)),
        *("--ignore-eos", "--temperature", "0", "--extra-body", json.dumps(body)),
        *("--save-result", "--result-dir", str(folder), "--result-filename", "r.json"),
        "--disable-tqdm",
    ]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"vllm bench serve failed: {done.stderr[-2000:]}")
    said = json.loads((folder / "r.json").read_text())
    return said["median_tpot_ms"], said["output_throughput"]


@contextmanager
def serving(python: str, model: str) -> Iterator[str]:
    """Run a vLLM server on loopback for the length of the block, and give its URL."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [
        *(python, "-m", "vllm.entrypoints.openai.api_server", "--model", model),
        *("--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(port)),
        *("--max-model-len", "1024", "--max-num-seqs", "8", "--enforce-eager"),
    ]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"}
    url = f"http://127.0.0.1:{port}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            for _ in range(LAUNCH_S):
                time.sleep(1)
                try:
                    opener.open(f"{url}/health").close()
                    break
                except OSError:
                    if process.poll() is not None:
                        sys.exit(f"the server ended with {process.returncode}")
            yield url
        finally:
            process.terminate()


if __name__ == "__main__":
    main()
