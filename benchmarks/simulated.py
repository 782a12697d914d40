"""What the simulated server can play: lateness under load, virtual time, time to ready.

    python benchmarks/simulated.py

Targets: 128 streams at steps of 5 ms with the 99th percentile of the lateness under 2 ms on one
core; virtual time at least 60 times real time at 200 requests/s; ready in under 1 s.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import anyio
import httpx

from specbench.engines.simulated.drafting import drafting
from specbench.engines.simulated.prefix_cache import PrefixCache
from specbench.engines.simulated.presets import B200_8B, H200_6B
from specbench.engines.simulated.scheduler import Request, Rules, State
from specbench.engines.simulated.script import BLOCK_TOKENS, blocks, script
from specbench.engines.simulated.text import Deviation
from specbench.engines.simulated.virtual import open_loop
from specbench.experiment.load import Timeouts
from specbench.experiment.model import Sampling
from specbench.experiment.prompt import Message, Prompt
from specbench.observe.metrics import parse
from specbench.traffic.drive import drive
from specbench.traffic.loops import LoadPoint
from specbench.traffic.requests import Wording, measured

PORT = 18_417
STREAMS = 128
TOKENS = 512
REQUESTS_PER_S = 200
ANSWER_TOKENS = 64
SECONDS = 60


@contextmanager
def server(*flags: str, core: int | None) -> Iterator[float]:
    """Run a simulated server, pinned to a core, and give the seconds until it was ready."""
    pinned = [] if core is None else ["taskset", "--cpu-list", str(core)]
    argv = [*pinned, sys.executable, "-m", "specbench.engines.simulated.server", "--model", "toy"]
    began_s = time.monotonic()
    with subprocess.Popen(
        [*argv, "--port", str(PORT), *flags],
        stdout=subprocess.DEVNULL,
    ) as process:
        try:
            while True:
                try:
                    httpx.get(f"http://127.0.0.1:{PORT}/health", trust_env=False)
                    break
                except httpx.TransportError:
                    time.sleep(0.005)
            yield time.monotonic() - began_s
        finally:
            process.terminate()


def series(name: str) -> float:
    """Read the sum of a series of the running server."""
    page = httpx.get(f"http://127.0.0.1:{PORT}/metrics", trust_env=False).text
    return sum(value for (found, _), value in parse(page).series.items() if found == name)


def lateness() -> str:
    """Drive 128 streams, the server on one core and the client on another."""
    cores = sorted(os.sched_getaffinity(0))
    prompts = [
        Prompt(
            id=f"p{place}",
            stratum="chat",
            messages=(Message(role="user", content=f"Tell me about number {place}."),),
            max_tokens=TOKENS,
            source="benchmark",
            licence="Apache-2.0",
        )
        for place in range(STREAMS)
    ]
    wording = Wording(
        host=f"127.0.0.1:{PORT}",
        path="/v1/chat/completions",
        model="target",
        sampling=Sampling(name="greedy", ignore_eos=True),
        salt="lateness",
    )
    with server(core=cores[-1]):
        os.sched_setaffinity(0, {cores[0]})
        window = anyio.run(
            partial(
                drive,
                measured(prompts, STREAMS, wording),
                LoadPoint(
                    base_url=f"http://127.0.0.1:{PORT}",
                    timeouts=Timeouts(request_s=60),
                    concurrency=STREAMS,
                ),
            )
        )
        os.sched_setaffinity(0, set(cores))
        steps, late = series("simulated:steps_total"), series("simulated:late_steps_total")
        worst_s = series("simulated:worst_lateness_seconds")
    first_ns = min(row.event_ns[0] for row in window.rows)
    last_ns = max(row.event_ns[-1] for row in window.rows)
    span_s = (last_ns - first_ns) / 1e9
    events = sum(len(row.event_ns) for row in window.rows)
    return (
        f"{STREAMS} streams, steps of {span_s / steps * 1e3:.1f} ms, {events / span_s:,.0f} "
        f"events/s: {late / steps:.2%} of {steps:.0f} steps over 2 ms late (must be under 1%), "
        f"worst {worst_s * 1e3:.1f} ms"
    )


def virtual_time() -> str:
    """Play an open loop of 200 requests/s, 64 tokens each, in virtual time."""
    drafts = drafting({"method": "eagle", "num_speculative_tokens": 3}, B200_8B.chains)
    rules = Rules(
        drafting=drafts,
        max_num_seqs=256,
        max_scheduled_tokens=8192,
        kv_blocks=B200_8B.kv_tokens("eagle", 0.9) // BLOCK_TOKENS,
    )
    prompts = [f"Tell me about number {place} " + "and why it is so " * 20 for place in range(64)]
    count = REQUESTS_PER_S * SECONDS
    began_s = time.monotonic()
    scripts = [
        script(
            prompt,
            cap=ANSWER_TOKENS,
            seed=0,
            habits=B200_8B.habits,
            drafting=drafts,
            deviation=Deviation(),
            ignore_eos=True,
        )
        for prompt in prompts
    ]
    requests = [
        Request(
            request_id=str(place),
            script=scripts[place % len(scripts)],
            blocks=blocks(scripts[place % len(scripts)].prompt, ""),
        )
        for place in range(count)
    ]
    window = open_loop(
        requests,
        arrivals_s=[place / REQUESTS_PER_S for place in range(count)],
        rules=rules,
        cost=B200_8B.cost(method="eagle", async_scheduling=True),
        state=State(cache=PrefixCache(capacity=rules.kv_blocks)),
    )
    took_s = time.monotonic() - began_s
    return (
        f"{count:,} requests of {ANSWER_TOKENS} tokens at {REQUESTS_PER_S}/s, "
        f"{window.duration_s:.1f} s simulated in "
        f"{took_s:.2f} s: {window.duration_s / took_s:.0f} x real time (must be 60 x)"
    )


def ready() -> str:
    """Launch five times."""
    times = []
    for _ in range(5):
        with server(core=None) as took_s:
            times.append(took_s)
    return (
        f"ready after {statistics.median(times):.2f} s, median of 5, worst {max(times):.2f} s "
        "(must be under 1 s)"
    )


def main() -> None:
    """Run all three."""
    print(f"preset {H200_6B.name} for lateness, {B200_8B.name} for virtual time")
    for measure in (ready, lateness, virtual_time):
        print(f"{measure.__name__}: {measure()}")


if __name__ == "__main__":
    main()
