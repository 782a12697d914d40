"""Samples of a window to what the server and its accelerators did. Pure."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from specbench.facts import RequestRow, Sample, Sampled, Verdict

LEAST_SAMPLES = 20
"""Samples in the steady part under which there is no mean of running requests: a gauge that is read
between two steps can stand below what the server runs."""
CLOCK_FALL = 0.05
"""A cell whose SM clock lies further below the median of its block and load is flagged."""


def summarise(
    samples: Sequence[Sample],
    rows: Sequence[RequestRow],
    *,
    concurrency: int | None,
    tokens: int | None,
) -> Sampled:
    """Give means and extremes of a window. None stands for what nobody told.

    The mean of running requests is taken from the c-th send to the last send, as the client's
    achieved concurrency is; without a concurrency from the first send. Several accelerators of a
    server are averaged, their energy and memory added. Energy is what the counters of the
    accelerators grew between the first and the last sample, scaled to the window, over its
    completion tokens.
    """
    sends = sorted(row.sent_ns for row in rows)
    steady = (sends[min(concurrency or 1, len(sends)) - 1], sends[-1])
    running = [
        sample.value for sample in _of(samples, "running") if steady[0] <= sample.at_ns <= steady[1]
    ]
    span_ns = max(row.ended_ns for row in rows) - sends[0]
    energy = _energy_j(samples, span_ns)
    return Sampled(
        samples=len(_of(samples, "running")),
        running_mean=_mean(running) if len(running) >= LEAST_SAMPLES else None,
        waiting_max=_most(samples, "waiting"),
        kv_usage_max=_most(samples, "kv_usage"),
        gpu_memory_gib=_sum_of_devices(samples, "memory_gib"),
        gpu_utilisation=_mean_of(samples, "utilisation"),
        sm_clock_mhz=_mean_of(samples, "sm_clock_mhz"),
        power_w=_sum_of_devices(samples, "power_w"),
        energy_per_token_j=energy / tokens if energy is not None and tokens else None,
        sm_activity=_mean_of(samples, "sm_activity"),
        tensor_activity=_mean_of(samples, "tensor_activity"),
        nvlink_mib_s=_mean_of(samples, "nvlink_mib_s"),
        pcie_mib_s=_mean_of(samples, "pcie_mib_s"),
    )


def clock_verdicts(clocks: Mapping[str, float]) -> dict[str, Verdict]:
    """Flag the cells of a block and load whose SM clock fell; `clocks` gives MHz by cell."""
    if len(clocks) < 2:  # noqa: PLR2004 - one cell is its own median
        return {}
    median = statistics.median(clocks.values())
    return {
        cell: Verdict(
            gate="sm_clock",
            outcome="undecided",
            observed=f"{clock:.0f} MHz, {1 - clock / median:.1%} below the median of its load",
            required=f"at most {CLOCK_FALL:.0%} below {median:.0f} MHz",
            advice="the accelerator was slowed down: look at its temperature and power limit",
        )
        for cell, clock in clocks.items()
        if clock < (1 - CLOCK_FALL) * median
    }


def _of(samples: Iterable[Sample], quantity: str) -> list[Sample]:
    return [sample for sample in samples if sample.quantity == quantity]


def _by_device(samples: Iterable[Sample], quantity: str) -> Mapping[str, list[Sample]]:
    devices: dict[str, list[Sample]] = defaultdict(list)
    for sample in _of(samples, quantity):
        devices[sample.of].append(sample)
    return devices


def _energy_j(samples: Iterable[Sample], span_ns: int) -> float | None:
    grown, covered = 0.0, 0
    for found in _by_device(samples, "energy_j").values():
        grown += found[-1].value - found[0].value
        covered = max(covered, found[-1].at_ns - found[0].at_ns)
    return grown * span_ns / covered if covered and grown >= 0 else None


def _sum_of_devices(samples: Iterable[Sample], quantity: str) -> float | None:
    means = [
        statistics.fmean(sample.value for sample in found)
        for found in _by_device(samples, quantity).values()
    ]
    return sum(means) if means else None


def _mean_of(samples: Iterable[Sample], quantity: str) -> float | None:
    return _mean([sample.value for sample in _of(samples, quantity)])


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def _most(samples: Iterable[Sample], quantity: str) -> float | None:
    return max((sample.value for sample in _of(samples, quantity)), default=None)
