"""The histogram of inter-token latencies, which counts many equal gaps at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

import attrs
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from specbench.engines.simulated.families import Family


class Gaps(Collector):
    """Inter-token latencies, counted by weight: a batch decodes in step, so many gaps are equal."""

    def __init__(self, family: Family, name: str, labels: tuple[str, ...]) -> None:
        self._metric = (name, family.said, labels)
        self._bounds = family.buckets
        self._engines: dict[tuple[str, ...], _Weights] = {}

    def begin(self, labels: tuple[str, ...], *, created: float) -> None:
        """Start one engine's series at 0."""
        self._engines[labels] = _Weights(created, [0] * (len(self._bounds) + 1))

    def observe(self, labels: tuple[str, ...], gaps_s: Iterable[tuple[float, int]]) -> None:
        """Count gaps of one engine."""
        weights = self._engines[labels]
        for gap_s, count in gaps_s:
            place = next(
                (place for place, bound in enumerate(self._bounds) if gap_s <= bound),
                len(self._bounds),
            )
            weights.counts[place] += count
            weights.sum_s += gap_s * count

    def collect(self) -> Iterator[Metric]:
        """Give the family as the client library's own histogram would."""
        name, said, labels = self._metric
        metric = HistogramMetricFamily(name, said, labels=labels)
        bounds = [*map(str, self._bounds), "+Inf"]
        for values, weights in self._engines.items():
            counts = [float(count) for count in accumulate(weights.counts)]
            metric.add_metric(values, list(zip(bounds, counts, strict=True)), weights.sum_s)
            named = dict(zip(labels, values, strict=True))
            metric.add_sample(f"{name}_created", named, weights.created)
        yield metric


@attrs.define
class _Weights:
    created: float
    counts: list[int]
    sum_s: float = 0.0
