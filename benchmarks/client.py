"""Compares specbench's client with a reader in C++ and with installed peers, on the same work.

    python benchmarks/client.py            five rounds, about 15 minutes, on a quiet machine
    python benchmarks/client.py --short    one round of smaller work, about a minute
    python benchmarks/client.py --case "512 streams" --case memory    only those

Builds the reference server (one core) and reader (the other core) with g++. Within a round every
client does each case's work in turn; a ratio is taken inside its round, and what is shown is the
median over rounds. A bare reader shows what of our cost Python and the kernel have. Peers are
measured where they are installed and SPECBENCH_TOKENIZER names a tokenizer's folder.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
from peers import installed_peers
from reference_server import (
    CLIENT_CORE,
    ReferenceServer,
    built,
    on_core,
    require_tools,
    serving,
)

OURS = Path(__file__).parent / "our_client.py"
BARE_READER = Path(__file__).parent / "bare_reader.py"
BARE = "bare reader in Python"
TTFT_MS = 50.0
EXTRA_EVENTS = 3
"""Of each request beside its tokens: role, usage and [DONE]."""
Facts = dict[str, Any]


@attrs.frozen(kw_only=True)
class Must:
    """A limit on one fact of the uvloop client."""

    fact: str
    limit: float
    least: bool = False

    def text(self, value: float | None) -> str:
        """Say whether a value keeps it."""
        if value is None:
            return f"not measured: {self.fact}"
        held = value >= self.limit if self.least else value <= self.limit
        sign = ">=" if self.least else "<="
        return f"{'holds' if held else 'MISSED'}: {self.fact} {value:.4g} {sign} {self.limit:g}"


@attrs.frozen(kw_only=True)
class Case:
    """One kind of work."""

    name: str
    streams: int = 0
    rate: float = 0.0
    itl_ms: float = 0.0
    ttft_ms: float = TTFT_MS
    requests: int
    tokens: int
    musts: tuple[Must, ...]
    repeats: int = 1
    """Times that one process does the work."""
    compared: bool = True
    """Whether the reader in C++ and plain asyncio do it too."""

    @property
    def paced(self) -> bool:
        """Whether the server keeps a pace, so that its stamps are a truth to compare with."""
        return self.itl_ms > 0


def cases(*, short: bool) -> tuple[Case, ...]:
    """Give the work, with what must hold."""
    part = 4 if short else 1
    return (
        Case(
            name="256 streams, ITL 10 ms",
            streams=256,
            itl_ms=10,
            requests=512,
            tokens=64,
            musts=(Must(fact="ratio", limit=1.7), Must(fact="ttft_error_p95_ms", limit=1.0)),
        ),
        Case(
            name="1,024 streams together, ITL 40 ms",
            streams=1024,
            itl_ms=40,
            requests=1024,
            tokens=64 // part,
            musts=(
                Must(fact="ttft_error_p95_ms", limit=0.1),
                Must(fact="event_error_p99_ms", limit=0.05),
                Must(fact="cpu_share", limit=0.35),
            ),
        ),
        Case(
            name="512 streams, ITL 10 ms",
            streams=512,
            itl_ms=10,
            requests=1024,
            tokens=64,
            musts=(
                Must(fact="cpu_share", limit=0.5),
                Must(fact="event_error_p99_ms", limit=0.1),
            ),
        ),
        Case(
            name="1,024 streams, ITL 10 ms",
            streams=1024,
            itl_ms=10,
            requests=1024,
            tokens=64,
            musts=(Must(fact="sustained_share", limit=0.98, least=True),),
        ),
        Case(
            name="as fast as possible, 256 streams",
            streams=256,
            ttft_ms=0,
            requests=512,
            tokens=128,
            musts=(Must(fact="events_per_s", limit=120_000, least=True),),
        ),
        Case(
            name="open loop, 300 requests/s, 200 live",
            rate=300,
            itl_ms=10,
            requests=3000 // part,
            tokens=64,
            musts=(Must(fact="dispatch_p95_ms", limit=0.15),),
            compared=False,
        ),
        Case(
            name="10,000 requests of one token at 32",
            streams=32,
            ttft_ms=0,
            requests=10_000 // part,
            tokens=1,
            musts=(Must(fact="requests_per_s", limit=10_000, least=True),),
        ),
    )


def memory_case(*, short: bool) -> Case:
    """Give the work whose memory is watched: ten times in one process, not in every round."""
    return Case(
        name="memory: 1,024 streams x 4,096 events",
        streams=1024,
        ttft_ms=0,
        requests=1024,
        tokens=256 if short else 4096,
        repeats=3 if short else 10,
        musts=(Must(fact="peak_mb", limit=250), Must(fact="growth_mb", limit=5)),
        compared=False,
    )


def named(found: tuple[Case, ...], parts: list[str] | None) -> tuple[Case, ...]:
    """Give the cases whose name has one of the parts in it; all when there is no part."""
    return tuple(
        case for case in found if parts is None or any(part in case.name for part in parts)
    )


def main() -> None:
    """Build, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="one round of smaller work")
    parser.add_argument("--rounds", type=int, help="instead of five, or of one with --short")
    parser.add_argument("--no-memory", action="store_true", help="without the case of memory")
    parser.add_argument("--case", action="append", help="only cases whose name has this in it")
    parser.add_argument("--json", type=Path, help="every single result, too")
    asked = parser.parse_args()
    require_tools()
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        server_program, reader = (
            built(name, Path(folder)) for name in ("reference_server", "reference_reader")
        )
        with serving(server_program) as server:
            rounds = asked.rounds or (1 if asked.short else 5)
            chosen = named(cases(short=asked.short), asked.case)
            results = measured(server, reader, chosen, rounds)
            watching = () if asked.no_memory else (memory_case(short=asked.short),)
            for many in named(watching, asked.case):
                chosen = (*chosen, many)
                results[many.name, "specbench, uvloop"] = [ours(server, many, "uvloop")]
    if asked.json:
        asked.json.write_text(json.dumps([[*key, found] for key, found in results.items()]))
    print("\n".join(table(chosen, results)))
    print(f"\nload average {load_before:.2f} before, {os.getloadavg()[0]:.2f} after", end="")
    print(": the machine was not quiet" if load_before > 0.5 else "")


def measured(
    server: ReferenceServer, reader: Path, chosen: tuple[Case, ...], rounds: int
) -> dict[tuple[str, str], list[Facts]]:
    """Give the facts of every case and client, a list over rounds."""
    results: dict[tuple[str, str], list[Facts]] = defaultdict(list)
    for number in range(rounds):
        for case in chosen:
            for name, run in clients(server, reader, case).items():
                print(f"round {number + 1}: {case.name}: {name}", file=sys.stderr)
                results[case.name, name].append(run())
            base = results.get((case.name, "reader in C++"))
            if base:
                for name in ("specbench, uvloop", "specbench, asyncio", BARE):
                    found = results[case.name, name][-1]
                    found["ratio"] = found["cpu_us_per_event"] / base[-1]["cpu_us_per_event"]
    return results


def clients(server: ReferenceServer, reader: Path, case: Case) -> dict[str, Callable[[], Facts]]:
    """Give what does the work of a case."""
    found: dict[str, Callable[[], Facts]] = {
        "specbench, uvloop": lambda: ours(server, case, "uvloop")
    }
    if case.compared:
        found = {
            "reader in C++": lambda: reference(server, reader, case),
            **found,
            "specbench, asyncio": lambda: ours(server, case, "asyncio"),
            BARE: lambda: bare(server, case),
        }
        for peer in installed_peers() if case.paced else ():
            found[peer.name] = lambda peer=peer: peer.measured(
                server, case.streams, case.requests, case.tokens
            )
    return found


def reference(server: ReferenceServer, reader: Path, case: Case) -> Facts:
    """Let the reader in C++ do the work."""
    server.set_up(ttft_ms=case.ttft_ms, itl_ms=case.itl_ms, record=False)
    work = [server.port, case.streams, case.requests, case.tokens]
    said = json.loads(_output([reader, *map(str, work)]))
    cpu_s = said["user_s"] + said["sys_s"]
    return {
        "cpu_us_per_event": cpu_s / said["events"] * 1e6,
        "cpu_share": cpu_s / said["wall_s"],
        "events_per_s": said["events"] / said["wall_s"],
        "requests_per_s": said["reqs"] / said["wall_s"],
    }


def bare(server: ReferenceServer, case: Case) -> Facts:
    """Let the bare reader do the work."""
    server.set_up(ttft_ms=case.ttft_ms, itl_ms=case.itl_ms, record=False)
    work = [server.port, case.streams, case.requests, case.tokens]
    said = json.loads(_output([sys.executable, BARE_READER, *map(str, work)]))
    events = case.requests * (case.tokens + EXTRA_EVENTS)
    return {
        "cpu_us_per_event": said["cpu_s"] / events * 1e6,
        "cpu_share": said["cpu_s"] / said["wall_s"],
        "events_per_s": events / said["wall_s"],
        "requests_per_s": case.requests / said["wall_s"],
    }


def ours(server: ReferenceServer, case: Case, loop: str) -> Facts:
    """Let specbench's client do the work."""
    server.set_up(ttft_ms=case.ttft_ms, itl_ms=case.itl_ms, record=case.paced)
    command = [sys.executable, OURS, "--port", str(server.port), "--loop", loop]
    command += ["--concurrency", str(case.streams), "--rate", str(case.rate)]
    command += ["--requests", str(case.requests), "--tokens", str(case.tokens)]
    command += ["--repeats", str(case.repeats), *(["--truth"] if case.paced else [])]
    said: Facts = json.loads(_output(command))
    if said["failed"]:
        sys.exit(f"{case.name}: {said['failed']} requests failed")
    peaks = said.pop("peaks_mb")
    # The first pass grows what the allocator then keeps.
    return said | {"peak_mb": peaks[-1], "growth_mb": peaks[-1] - peaks[min(1, len(peaks) - 1)]}


def _output(command: list[str | Path]) -> str:
    done = subprocess.run(
        on_core(CLIENT_CORE, command), check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout


COLUMNS = {
    "cpu_share": ("core busy", "{:.0%}"),
    "cpu_us_per_event": ("CPU us/event", "{:.2f}"),
    "ratio": ("x C++", "{:.2f}"),
    "events_per_s": ("events/s", "{:,.0f}"),
    "sent_per_s": ("server's events/s", "{:,.0f}"),
    "requests_per_s": ("req/s", "{:,.0f}"),
    "ttft_error_p50_ms": ("TTFT error p50 ms", "{:.3f}"),
    "ttft_error_p95_ms": ("p95", "{:.3f}"),
    "event_error_p50_ms": ("event error p50 ms", "{:.3f}"),
    "event_error_p99_ms": ("p99", "{:.3f}"),
    "dispatch_p95_ms": ("dispatch p95 ms", "{:.3f}"),
    "lag_p99_ms": ("lag p99 ms", "{:.2f}"),
    "merged_share": ("merged", "{:.2%}"),
    "peak_mb": ("peak MB", "{:.0f}"),
}


def table(chosen: tuple[Case, ...], results: dict[tuple[str, str], list[Facts]]) -> Iterator[str]:
    """Give a table a case, medians over rounds, and what must hold below each."""
    for case in chosen:
        rows = {name: found for (of, name), found in results.items() if of == case.name}
        yield f"\n{case.name}"
        yield "| client | " + " | ".join(title for title, _ in COLUMNS.values()) + " | n |"
        yield "|---" * (len(COLUMNS) + 2) + "|"
        for name, found in rows.items():
            cells = [
                shown.format(middle) if (middle := median(found, fact)) is not None else ""
                for fact, (_, shown) in COLUMNS.items()
            ]
            yield f"| {name} | {' | '.join(cells)} | {len(found)} |"
        for must in case.musts:
            yield f"  {must.text(median(rows['specbench, uvloop'], must.fact))}"


def median(found: list[Facts], fact: str) -> float | None:
    """Give the median of a fact over rounds, or None where it was not measured."""
    values = [one[fact] for one in found if one.get(fact) is not None]
    return statistics.median(values) if values else None


if __name__ == "__main__":
    main()
