"""Drives a reference server with specbench's own client, and prints what it took as JSON.

Run by `client.py`, on the core that is to be measured. The server stamps every send with the clock
of `time.perf_counter_ns`, so its stamps and ours compare event by event.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from collections.abc import Iterable, Sequence

import anyio
import numpy as np
from reference_server import LONGEST_ID, ReferenceServer, Truth

from specbench.experiment.load import OpenLoad, Timeouts
from specbench.experiment.model import Sampling
from specbench.experiment.prompt import Message, Prompt
from specbench.facts import Window
from specbench.traffic.address import Address
from specbench.traffic.arrivals import arrivals_ns
from specbench.traffic.drive import drive
from specbench.traffic.loops import LoadPoint
from specbench.traffic.requests import Wording, measured
from specbench.traffic.stream import usable_clock


def main() -> None:
    """Drive one case and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--concurrency", type=int, default=0)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--loop", choices=("uvloop", "asyncio"), default="uvloop")
    parser.add_argument("--truth", action="store_true")
    asked = parser.parse_args()
    url = f"http://127.0.0.1:{asked.port}"
    prompt = Prompt(
        id="p",
        stratum="s",
        messages=(Message(role="user", content="x" * 900),),
        max_tokens=asked.tokens,
        source="benchmark",
        licence="CC0-1.0",
    )
    options = {"use_uvloop": asked.loop == "uvloop"}
    # What a first run imports is no cost of an event.
    anyio.run(anyio.sleep, 0, backend_options=options)
    usable_clock(Address.of(url))
    peaks_mb = []
    window: Window | None = None
    for repeat in range(asked.repeats):
        wording = Wording(
            host=f"127.0.0.1:{asked.port}",
            path="/v1/chat/completions",
            model="ref",
            sampling=Sampling(name="greedy"),
            salt=f"b{repeat}",
        )
        requests = measured([prompt], asked.requests, wording)
        load = OpenLoad(rate=(asked.rate,), requests=asked.requests)
        point = LoadPoint(
            base_url=url,
            timeouts=Timeouts(),
            concurrency=asked.concurrency or None,
            arrivals_ns=arrivals_ns(load, asked.rate, "1") if asked.rate else (),
            max_in_flight=4096,
        )
        # A campaign has written the last window away before it drives the next.
        window = None
        before = resource.getrusage(resource.RUSAGE_SELF)
        window = anyio.run(drive, requests, point, backend_options=options)
        after = resource.getrusage(resource.RUSAGE_SELF)
        peaks_mb.append(after.ru_maxrss / 1024)
    said = facts(window, before, after, asked.tokens) | {"peaks_mb": peaks_mb}
    if asked.truth:
        said |= errors(window, ReferenceServer(asked.port).truth())
    json.dump(said, sys.stdout)


def facts(
    window: Window, before: resource.struct_rusage, after: resource.struct_rusage, tokens: int
) -> dict[str, object]:
    """Give cost and pace. A request has role, usage and [DONE] events beside its tokens."""
    client = window.client
    assert client is not None
    events = len(window.rows) * (tokens + 3)
    whole_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "failed": sum(row.status != "ok" for row in window.rows),
        "clock": window.clock,
        "cpu_us_per_event": client.cpu_share * client.duration_s / events * 1e6,
        "whole_us_per_event": whole_s / events * 1e6,
        "user": (after.ru_utime - before.ru_utime) / events * 1e6,
        "cpu_share": client.cpu_share,
        "events_per_s": events / client.duration_s,
        "requests_per_s": len(window.rows) / client.duration_s,
        "merged_share": client.merged_share,
        "lag_p99_ms": (client.lag_p99_s or 0) * 1e3,
        "dispatch_p95_ms": client.dispatch_p95_s * 1e3,
        "reached": client.reached_in_flight,
    }


def pace_per_s(streams: int, stamps_ns: Iterable[Sequence[int]]) -> float:
    """Give the events a second of all streams between their own first and last events."""
    whole = [one for one in stamps_ns if len(one) > 1]
    busy_ns = sum(one[-1] - one[0] for one in whole)
    gaps = sum(len(one) - 1 for one in whole)
    return streams * gaps / busy_ns * 1e9 if busy_ns else 0.0


def errors(window: Window, told: Truth) -> dict[str, float | None]:
    """Give by how much our times differ from the server's own, in ms, and both paces."""
    assert window.client is not None
    streams = window.client.reached_in_flight
    ours_per_s = pace_per_s(streams, (row.event_ns for row in window.rows))
    sent_per_s = pace_per_s(streams, (sends for _, sends in told.values()))
    ttft, event = [], []
    for row in window.rows:
        received, sends = told[row.request_id[:LONGEST_ID]]
        if row.status != "ok" or row.first_payload_ns is None or len(sends) != len(row.event_ns):
            continue
        ttft.append((row.first_payload_ns - row.sent_ns) - (sends[0] - received))
        event.append(np.asarray(row.event_ns) - np.asarray(sends, dtype=np.int64))
    late = np.concatenate(event)
    return {
        "compared": len(ttft),
        "sent_per_s": sent_per_s,
        "sustained_share": ours_per_s / sent_per_s if sent_per_s else None,
        "ttft_error_p50_ms": float(np.quantile(ttft, 0.5)) / 1e6,
        "ttft_error_p95_ms": float(np.quantile(ttft, 0.95)) / 1e6,
        "event_error_p50_ms": float(np.quantile(late, 0.5)) / 1e6,
        "event_error_p99_ms": float(np.quantile(late, 0.99)) / 1e6,
    }


if __name__ == "__main__":
    main()
