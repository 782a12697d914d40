"""Gains made by hand, for tests of what is decided from them."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.analysis.effects import Role
from specbench.analysis.workload_gains import WorkloadGains


def gains(
    values: Sequence[float], arm: str = "x", role: Role = "arm", stratum: str = "code"
) -> WorkloadGains:
    return WorkloadGains(
        arm=arm,
        role=role,
        stratum=stratum,
        sampling="greedy",
        metric="output_throughput",
        loads=(1, 8),
        gains=dict(enumerate(values, start=1)),
        weak=False,
        missing=(),
    )
