"""Loads past one core: the same drive in several client processes, merged row by row."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress

import anyio
import anyio.to_thread
import attrs

from specbench.errors import MachineError
from specbench.traffic.loops import LoadPoint
from specbench.traffic.parts import Part
from specbench.traffic.requests import TimedRequest
from specbench.traffic.share import READY, STOP, Done, Share, boot

WORKER = (sys.executable, "-m", "specbench.traffic.worker")
LEAD_NS = 100_000_000
"""From the last worker's readiness to the common start."""
_POLL_S = 0.05


def shares(requests: Sequence[TimedRequest], asked: LoadPoint, processes: int) -> tuple[Share, ...]:
    """Give each process its share: every n-th request, and of the concurrency as equal a part."""
    count = min(processes, len(requests), asked.concurrency or len(requests))
    found = []
    for place in range(count):
        streams, limit = (
            None if whole is None else whole // count + (place < whole % count)
            for whole in (asked.concurrency, asked.max_in_flight)
        )
        point = attrs.evolve(
            asked,
            concurrency=streams,
            max_in_flight=limit,
            arrivals_ns=asked.arrivals_ns[place::count],
            processes=1,
        )
        found.append(Share(requests=requests[place::count], point=point))
    return tuple(found)


async def drive_shares(
    parts: Sequence[Share],
    *,
    stop: Callable[[], bool],
    command: Sequence[str] = WORKER,
) -> tuple[Part, ...]:
    """Drive every share in a process of its own, all from one instant on.

    `command` starts a worker, here or through a launcher.

    Raises:
        MachineError: A worker ended early, or ran on another machine, whose clock is another one.
    """
    with ExitStack() as stack:
        workers = [stack.enter_context(_started(command)) for _ in parts]
        # Whatever happens, none is left behind.
        for worker in workers:
            stack.callback(worker.kill)
        try:
            done = await _driven(workers, parts, stop)
        except BaseExceptionGroup as group:
            lost = group.subgroup(MachineError)
            if lost is None:
                raise
            raise MachineError("a client process ended before its part was done") from lost
    if any(one.clock != boot() for one in done):
        raise MachineError(
            "a client process ran on another machine: its instants are on another clock",
            "start workers on this machine",
        )
    return tuple(one.part for one in done)


async def _driven(
    workers: Sequence[subprocess.Popen[bytes]], parts: Sequence[Share], stop: Callable[[], bool]
) -> list[Done]:
    """Start all workers at one instant, pass a stop on, and give what they give."""
    async with anyio.create_task_group() as group:
        for worker, share in zip(workers, parts, strict=True):
            group.start_soon(anyio.to_thread.run_sync, _prepared, worker, share)
    start_ns = time.perf_counter_ns() + LEAD_NS
    for worker in workers:
        _tell(worker, b"%d\n" % start_ns)
    done: dict[int, Done] = {}

    async def collect(place: int) -> None:
        done[place] = await anyio.to_thread.run_sync(_given, workers[place], abandon_on_cancel=True)

    async with anyio.create_task_group() as group:
        for place in range(len(workers)):
            group.start_soon(collect, place)
        while not stop() and len(done) < len(workers):  # noqa: ASYNC110 - `stop` only answers
            await anyio.sleep(_POLL_S)
        for place, worker in enumerate(workers):
            if place not in done:
                _tell(worker, STOP)
    return [done[place] for place in sorted(done)]


def _started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a worker that no signal to our own group reaches: it ends with its input."""
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    )


def _prepared(worker: subprocess.Popen[bytes], share: Share) -> None:
    """Hand a share over and wait until its connections are open."""
    _tell(worker, pickle.dumps(share, protocol=pickle.HIGHEST_PROTOCOL))
    assert worker.stdout is not None
    if worker.stdout.readline() != READY:
        raise _lost(worker)


def _given(worker: subprocess.Popen[bytes]) -> Done:
    assert worker.stdout is not None
    try:
        done: Done = pickle.load(worker.stdout)  # noqa: S301 - from a process that we started
    except (EOFError, pickle.UnpicklingError):
        raise _lost(worker) from None
    return done


def _tell(worker: subprocess.Popen[bytes], said: bytes) -> None:
    assert worker.stdin is not None
    try:
        worker.stdin.write(said)
        worker.stdin.flush()
    except OSError:
        # What the buffer still holds would fail again, later, when the process is left.
        with suppress(OSError):
            worker.stdin.close()
        raise _lost(worker) from None


def _lost(worker: subprocess.Popen[bytes]) -> MachineError:
    return MachineError(f"client process {worker.pid} ended before its part was done")
