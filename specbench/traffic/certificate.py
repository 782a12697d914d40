"""Shows what this machine's client can do: it drives a local paced server at a planned load.

The server is a process of its own and tells of each event when it sent it, so that a late server is
not taken for a late client.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import numpy as np
from anyio.streams.text import TextReceiveStream

import specbench
from specbench.client_facts import Certificate
from specbench.experiment.load import Timeouts
from specbench.experiment.model import Sampling
from specbench.experiment.prompt import Message, Prompt
from specbench.facts import Output, RequestRow, Window
from specbench.traffic.drive import drive
from specbench.traffic.loops import LoadPoint
from specbench.traffic.paced_server import STAMP_CHARACTERS
from specbench.traffic.requests import Wording, measured
from specbench.units import NS_PER_S, seconds

WAVE_S = 1.0
"""How long each stream lasts; there are two, one after the other."""
TTFT_S = 0.05
LEAST_TOKENS = 8
_TIMEOUT_S = 30.0


async def certify(streams: int, events_per_s: float, processes: int = 1) -> Certificate:
    """Drive so many streams at so many events a second for some two seconds, and give the facts."""
    itl_s = streams / events_per_s
    tokens = max(LEAST_TOKENS, round(WAVE_S / itl_s))
    async with _paced_server(itl_s, tokens) as port:
        wording = Wording(
            host=f"127.0.0.1:{port}",
            path="/v1/chat/completions",
            model="paced",
            sampling=Sampling(name="greedy"),
            salt="certificate",
        )
        prompt = Prompt(
            id="p",
            stratum="certificate",
            messages=(Message(role="user", content="x" * 1000),),
            max_tokens=tokens,
            source="specbench",
            licence="Apache-2.0",
        )
        window = await drive(
            measured([prompt], 2 * streams, wording),
            LoadPoint(
                base_url=f"http://127.0.0.1:{port}",
                timeouts=Timeouts(request_s=_TIMEOUT_S),
                concurrency=streams,
                processes=processes,
            ),
        )
    return _certificate(window, streams, events_per_s, itl_s)


def machine() -> str:
    """Give what a certificate is good for: this machine, kernel, Python and specbench."""
    return " / ".join(
        (
            platform.node(),
            platform.machine(),
            platform.release(),
            f"Python {platform.python_version()}",
            f"specbench {specbench.__version__}",
        )
    )


def _certificate(window: Window, streams: int, events_per_s: float, itl_s: float) -> Certificate:
    ttft, late, server_late = [0], [0], [0]
    for row, output in zip(window.rows, window.outputs, strict=True):
        if row.status != "ok" or row.first_payload_ns is None:
            continue
        arrived_ns, sends_ns = _told(output)
        ttft.append((row.first_payload_ns - row.sent_ns) - (sends_ns[0] - arrived_ns))
        due_ns = arrived_ns + TTFT_S * NS_PER_S + np.arange(len(sends_ns)) * itl_s * NS_PER_S
        server_late += (np.asarray(sends_ns) - due_ns).tolist()
        late += (np.asarray(row.event_ns) - np.asarray(sends_ns)).tolist()
    assert window.client is not None
    return Certificate(
        machine=machine(),
        made_unix_s=time.time(),
        streams=streams,
        events_per_s=events_per_s,
        reached_events_per_s=_reached(window.rows, streams),
        clock=window.clock,
        client=window.client,
        failed=sum(row.status != "ok" for row in window.rows),
        ttft_error_p95_s=_quantile_s(ttft, 0.95),
        event_error_p50_s=_quantile_s(late, 0.5),
        event_error_p99_s=_quantile_s(late, 0.99),
        server_late_p99_s=_quantile_s(server_late, 0.99),
    )


def _told(output: Output) -> tuple[int, list[int]]:
    """Give when the server received a request, and when it sent each event."""
    text = output.text
    arrived, *sends = (
        int(text[place : place + STAMP_CHARACTERS], 16)
        for place in range(0, len(text), STAMP_CHARACTERS)
    )
    return arrived, sends


def _reached(rows: tuple[RequestRow, ...], streams: int) -> float:
    """Give the events a second that streams brought between their first and last events."""
    good = [row for row in rows if len(row.event_ns) > 1]
    busy_s = sum(seconds(row.event_ns[-1] - row.event_ns[0]) for row in good)
    gaps = sum(len(row.event_ns) - 1 for row in good)
    return streams * gaps / busy_s if busy_s else 0.0


def _quantile_s(values_ns: list[int], share: float) -> float:
    return seconds(float(np.quantile(values_ns, share)))


@asynccontextmanager
async def _paced_server(itl_s: float, tokens: int) -> AsyncIterator[int]:
    """Run a paced server for the length of the block, and give its port."""
    command = [sys.executable, "-m", "specbench.traffic.paced_server"]
    command += ["--ttft-ms", str(TTFT_S * 1e3), "--itl-ms", str(itl_s * 1e3)]
    command += ["--tokens", str(tokens)]
    async with await anyio.open_process(command, stderr=None) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        with anyio.fail_after(_TIMEOUT_S):
            port = int(await TextReceiveStream(process.stdout).receive())
        try:
            yield port
        finally:
            await process.stdin.aclose()
