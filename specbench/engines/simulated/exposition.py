"""/metrics of the simulated server: vLLM's families and semantics, and what it did with them.

One label set per engine, made by the Prometheus client library. A server of several engines is one
with a single API process: with several, vLLM exposes neither `process_*` nor `_created` series.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from random import Random

import attrs
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from specbench.engines.simulated import families
from specbench.engines.simulated.families import CACHE, GAPS, Family
from specbench.engines.simulated.gaps import Gaps
from specbench.engines.simulated.resolved import cache_config
from specbench.engines.simulated.served import Served

LATE_S = 0.002
"""A step that was written out later than this after it was due is late."""

_LABEL = re.compile(r'(\w+="(?:[^"\\]|\\.)*")(?:,|$)')


@attrs.frozen(kw_only=True)
class StepFigures:
    """What one engine step did, summed over its requests."""

    running: int
    waiting: int
    kv_usage: float
    """Share of the KV cache in use, 0 to 1."""
    prompt_tokens: int
    """Computed in this step, without cached ones."""
    tokens: int
    """Generated and delivered."""
    drafts: int
    """Requests that verified a draft in this step."""
    drafted: int
    accepted: int
    accepted_at: tuple[int, ...]
    """Accepted tokens by draft position."""
    preemptions: int
    gaps_s: tuple[tuple[float, int], ...]
    """Time since the output before, and how many decoding requests waited that long."""


@attrs.frozen(kw_only=True)
class FinishedRequest:
    """One request from arrival to end; instants are seconds of one clock."""

    arrived_s: float
    scheduled_s: float
    first_token_s: float
    ended_s: float
    prompt_tokens: int
    cached_tokens: int
    generated_tokens: int
    max_tokens: int | None
    reason: str
    """stop, length, abort, error or repetition."""
    preemptions: int


@attrs.define
class _Series:
    """The series of one engine, by family name, and label value after a slash."""

    counters: dict[str, Counter] = attrs.field(factory=dict)
    gauges: dict[str, Gauge] = attrs.field(factory=dict)
    histograms: dict[str, Histogram] = attrs.field(factory=dict)
    prefilled: int = 0
    """Prompt tokens computed in steps that gave no output, for the next one that does."""


class _One(Collector):
    """One family, to be written out by itself."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterator[Metric]:
        yield self._metric


class Exposition:
    """Every series of one simulated server."""

    def __init__(self, served: Served, *, started_unix_s: float) -> None:
        self._served = served
        self._registry = CollectorRegistry()
        start = "Start time of the process since unix epoch in seconds."
        Gauge("process_start_time_seconds", start, registry=self._registry).set(started_unix_s)
        self._families: list[tuple[Family, Counter | Gauge | Histogram]] = []
        self._labels = ("model_name", "engine")
        for family in _families(served):
            self._declare(family)
        self._cache = Gauge(
            f"vllm:{CACHE}",
            "Information of the LLMEngine CacheConfig",
            (*cache_config(served), "engine"),
            registry=self._registry,
        )
        self._declare_own()
        self._worst_s = 0.0
        self._order = Random(0)  # noqa: S311 - reproducible, not secret
        self._series: dict[int, _Series] = {}
        for engine in range(served.data_parallel):
            self._begin(engine)

    def stepped(self, engine: int, figures: StepFigures) -> None:
        """Count one engine step."""
        self.gauges(
            engine,
            running=figures.running,
            waiting=figures.waiting,
            kv_usage=figures.kv_usage,
        )
        series = self._series[engine]
        counters = series.counters
        counters["generation_tokens"].inc(figures.tokens)
        counters["num_preemptions"].inc(figures.preemptions)
        series.prefilled += figures.prompt_tokens
        if figures.tokens:
            # vLLM observes an iteration when it gave output, with the prompts that it completed.
            tokens = series.prefilled + figures.tokens
            series.histograms["iteration_tokens_total"].observe(tokens)
            series.prefilled = 0
        if figures.drafts:
            counters["spec_decode_num_drafts"].inc(figures.drafts)
            counters["spec_decode_num_draft_tokens"].inc(figures.drafted)
            counters["spec_decode_num_accepted_tokens"].inc(figures.accepted)
            for place, count in enumerate(figures.accepted_at):
                counters[f"spec_decode_num_accepted_tokens_per_pos/{place}"].inc(count)
        self._gaps.observe(self._values(engine), figures.gaps_s)

    def admitted(self, engine: int, *, prompt_tokens: int, cached_tokens: int) -> None:
        """Count a request's prompt, by where its tokens come from."""
        counters = self._series[engine].counters
        if self._served.prefix_caching:
            counters["prefix_cache_queries"].inc(prompt_tokens)
            counters["prefix_cache_hits"].inc(cached_tokens)
        counters["prompt_tokens"].inc(prompt_tokens)
        counters["prompt_tokens_by_source/local_compute"].inc(prompt_tokens - cached_tokens)
        counters["prompt_tokens_by_source/local_cache_hit"].inc(cached_tokens)
        counters["prompt_tokens_cached"].inc(cached_tokens)
        if "prompt_tokens_cached_by_source/device" in counters:
            counters["prompt_tokens_cached_by_source/device"].inc(cached_tokens)

    def first_token(self, engine: int, ttft_s: float) -> None:
        """Count the time from arrival to the first token."""
        self._series[engine].histograms["time_to_first_token_seconds"].observe(ttft_s)

    def finished(self, engine: int, request: FinishedRequest) -> None:
        """Count a request that ended by itself.

        A client that went away reaches none of these series (vllm/v1/engine/output_processor.py).
        """
        series = self._series[engine]
        series.counters[f"request_success/{request.reason}"].inc()
        decode_s = request.ended_s - request.first_token_s
        further = request.generated_tokens - 1
        observed = {
            "request_prompt_tokens": request.prompt_tokens,
            "request_generation_tokens": request.generated_tokens,
            "request_max_num_generation_tokens": request.generated_tokens,
            "request_params_n": 1,
            "request_params_max_tokens": request.max_tokens,
            "request_time_per_output_token_seconds": decode_s / further if further > 0 else 0,
            "e2e_request_latency_seconds": request.ended_s - request.arrived_s,
            "request_queue_time_seconds": request.scheduled_s - request.arrived_s,
            "request_inference_time_seconds": request.ended_s - request.scheduled_s,
            "request_prefill_time_seconds": request.first_token_s - request.scheduled_s,
            "request_decode_time_seconds": decode_s,
            "request_num_preemptions": request.preemptions,
            "request_prefill_kv_computed_tokens": request.prompt_tokens - request.cached_tokens,
        }
        for name, value in observed.items():
            if value is not None and name in series.histograms:
                series.histograms[name].observe(value)

    def gauges(self, engine: int, *, running: int, waiting: int, kv_usage: float) -> None:
        """Set what stands now."""
        gauges = self._series[engine].gauges
        gauges["num_requests_running"].set(running)
        gauges["num_requests_waiting"].set(waiting)
        gauges["num_requests_waiting_by_reason/capacity"].set(waiting)
        gauges["kv_cache_usage_perc"].set(kv_usage)

    def late(self, engine: int, lateness_s: float) -> None:
        """Count how long after it was due a step was written out."""
        counters = self._series[engine].counters
        counters["steps"].inc()
        if lateness_s > LATE_S:
            counters["late_steps"].inc()
        if lateness_s > self._worst_s:
            self._worst_s = lateness_s
            self._worst.set(lateness_s)

    def restart_engine(self, engine: int) -> None:
        """Let one engine's series begin again at 0, as a new engine process would."""
        for family, metric in self._families:
            for value in family.values:
                metric.remove(*self._values(engine), *([value] if family.label else []))
        for own in (self._steps, self._late_steps):
            own.remove(str(engine))
        self._begin(engine)

    def page(self, *, shuffled_labels: bool = False) -> str:
        """Give the exposition text.

        With `shuffled_labels` the labels of every sample and the samples of every family stand in
        an order that differs from page to page; nothing else differs.
        """
        return "".join(self.families(shuffled_labels=shuffled_labels))

    def families(self, *, shuffled_labels: bool = False) -> Iterator[str]:
        """Give the page in pieces, a family each: a whole one takes as long as a step, 5 ms."""
        for metric in self._registry.collect():
            text = generate_latest(_One(metric)).decode()
            yield _shuffled(text, self._order) if shuffled_labels else text

    def _declare(self, family: Family) -> None:
        name = f"vllm:{family.name}"
        labels = (*self._labels, *([family.label] if family.label else []))
        if family.name == GAPS:
            self._gaps = Gaps(family, name, labels)
            self._registry.register(self._gaps)
            return
        metric: Counter | Gauge | Histogram
        if family.kind == "counter":
            metric = Counter(name, family.said, labels, registry=self._registry)
        elif family.kind == "gauge":
            metric = Gauge(name, family.said, labels, registry=self._registry)
        else:
            metric = Histogram(
                name, family.said, labels, buckets=family.buckets, registry=self._registry
            )
        self._families.append((family, metric))
        if family.name == "request_success" and self._served.version != "0.23.0":
            self._declare_rejections()

    def _declare_rejections(self) -> None:
        """Declare the one family of vLLM whose series belong to no engine; nothing is rejected."""
        rejections = Counter(
            "vllm:admission_rejections",
            "Number of admission attempts rejected by a queue limit, by reason.",
            ("model_name", "reason"),
            registry=self._registry,
        )
        for reason in ("max_num_queued_reqs", "max_num_queued_tokens"):
            rejections.labels(self._served.name, reason)

    def _declare_own(self) -> None:
        registry = self._registry
        self._steps = Counter("simulated:steps", "Engine steps.", ("engine",), registry=registry)
        self._late_steps = Counter(
            "simulated:late_steps",
            f"Engine steps written out more than {LATE_S * 1000:g} ms after they were due.",
            ("engine",),
            registry=registry,
        )
        self._worst = Gauge(
            "simulated:worst_lateness_seconds",
            "Longest time between a step's due instant and its writing out.",
            registry=registry,
        )

    def _begin(self, engine: int) -> None:
        series = self._series[engine] = _Series()
        for family, metric in self._families:
            for value in family.values:
                child = metric.labels(*self._values(engine), *([value] if family.label else []))
                key = f"{family.name}/{value}" if family.label else family.name
                if isinstance(child, Counter):
                    series.counters[key] = child
                elif isinstance(child, Gauge):
                    series.gauges[key] = child
                else:
                    series.histograms[key] = child
        series.gauges["engine_sleep_state/awake"].set(1)
        series.counters["steps"] = self._steps.labels(str(engine))
        series.counters["late_steps"] = self._late_steps.labels(str(engine))
        created = time.time()
        self._gaps.begin(self._values(engine), created=created)
        self._cache.labels(*map(str, cache_config(self._served).values()), str(engine)).set(1)

    def _values(self, engine: int) -> tuple[str, str]:
        return (self._served.name, str(engine))


def _families(served: Served) -> Iterator[Family]:
    if served.speculation is not None:
        yield from families.speculative(served.depth)
    for family in families.always(served.max_model_len):
        if served.version != "0.23.0" or not family.newer:
            yield family


def _shuffled(text: str, order: Random) -> str:
    """Give a page with labels and samples of each family in another order."""
    lines: list[str] = []
    samples: list[str] = []

    def shuffled() -> list[str]:
        return [_with_labels_shuffled(one, order) for one in order.sample(samples, len(samples))]

    for line in text.splitlines():
        if line.startswith("#"):
            lines += [*shuffled(), line]
            samples = []
        else:
            samples.append(line)
    return "\n".join([*lines, *shuffled()]) + "\n"


def _with_labels_shuffled(sample: str, order: Random) -> str:
    name, brace, rest = sample.partition("{")
    if not brace:
        return sample
    text, _, value = rest.rpartition("}")
    labels = _LABEL.findall(text)
    return f"{name}{{{','.join(order.sample(labels, len(labels)))}}}{value}"
