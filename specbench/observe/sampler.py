"""Samples of server and accelerators inside a window, from a thread of their own.

The measured client's event loop is not touched. A sample keeps the lines of /metrics that are read
later: nothing is parsed while requests run. What sampling cost is part of the evidence.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import attrs

from specbench.facts import CounterNames, Sample
from specbench.observe.accelerators import Accelerators, opened_accelerators
from specbench.observe.counter_page import CounterPage
from specbench.observe.metrics import gauge_total, parse
from specbench.proxy import Proxy


@attrs.frozen(kw_only=True)
class SamplingCost:
    """What the sampler took of the machine."""

    samples: int
    failed: int
    """Reads of /metrics that gave nothing."""
    wall_s: float
    """Time spent in sampling, waiting for the server included."""
    cpu_s: float
    """Processor time of the sampler's thread."""


class Sampler:
    """Reads at a steady pace until it is told to stop."""

    def __init__(
        self,
        page: CounterPage | None,
        names: CounterNames,
        every_s: float,
        accelerators: Accelerators | None,
    ) -> None:
        self._page, self._names, self._every_s = page, names, every_s
        self._accelerators = accelerators
        self._texts: list[tuple[int, str]] = []
        self._readings: list[Sample] = []
        self._failed, self._wall_s, self._cpu_s = 0, 0.0, 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the sample in hand."""
        self._stop.set()
        self._thread.join()

    def cost(self) -> SamplingCost:
        """Give what sampling took."""
        return SamplingCost(
            samples=len(self._texts),
            failed=self._failed,
            wall_s=self._wall_s,
            cpu_s=self._cpu_s,
        )

    def samples(self) -> tuple[Sample, ...]:
        """Give every sample, parsed now. A text that is no exposition gives none."""
        found = list(self._readings)
        for at_ns, text in self._texts:
            try:
                snapshot = parse(text)
            except ValueError:
                continue
            values = {
                "running": gauge_total(snapshot, self._names.running),
                "waiting": gauge_total(snapshot, self._names.waiting),
                # A share is never summed over engines: the fullest one binds.
                "kv_usage": max(
                    (v for (name, _), v in snapshot.series.items() if name == self._names.kv_usage),
                    default=None,
                ),
                "preemptions": gauge_total(snapshot, self._names.preemptions),
            }
            found += [
                Sample(at_ns=at_ns, of="server", quantity=quantity, value=value)
                for quantity, value in values.items()
                if value is not None
            ]
        return tuple(sorted(found, key=lambda sample: (sample.at_ns, sample.of, sample.quantity)))

    def _run(self) -> None:
        started = time.monotonic()
        for turn in range(1, 10**9):
            wall, cpu = time.monotonic(), time.thread_time()
            self._sample()
            self._wall_s += time.monotonic() - wall
            self._cpu_s += time.thread_time() - cpu
            if self._stop.wait(max(started + turn * self._every_s - time.monotonic(), 0)):
                return

    def _sample(self) -> None:
        if self._accelerators is not None:
            at_ns = time.perf_counter_ns()
            self._readings += [
                Sample(at_ns=at_ns, of=of, quantity=quantity, value=value)
                for of, quantity, value in self._accelerators.read()
            ]
        if self._page is None:
            return
        text = self._page.text()
        if text is None:
            self._failed += 1
        else:
            self._texts.append((time.perf_counter_ns(), _lines(text, self._names)))


@contextmanager
def sampling(
    url: str | None,
    names: CounterNames,
    every_s: float | None,
    visible: str | None = None,
    proxy: Proxy | None = None,
) -> Iterator[Sampler]:
    """Sample while the block runs; with `every_s` None not at all.

    `visible` is the server's own CUDA_VISIBLE_DEVICES, where it has one; `proxy` is on the way to
    the `url`.
    """
    accelerators = None if every_s is None else opened_accelerators(visible)
    page = CounterPage(url, proxy) if url else None
    sampler = Sampler(page, names, every_s or 1.0, accelerators)
    if every_s is None:
        yield sampler
        return
    sampler.start()
    try:
        yield sampler
    finally:
        sampler.stop()
        if accelerators is not None:
            accelerators.close()


def _lines(text: str, names: CounterNames) -> str:
    """Give the lines of a page that are read later."""
    wanted = (names.running, names.waiting, names.kv_usage, names.preemptions)
    return "".join(f"{line}\n" for line in text.splitlines() if line.startswith(wanted))
