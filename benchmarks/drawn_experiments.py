"""Drawn experiments whose truth is known: log values of deployments, and their points."""

from __future__ import annotations

import math
from collections.abc import Iterator

import attrs
import numpy as np
from numpy.typing import NDArray

from specbench.analysis.effects import Point, Role
from specbench.order import arm_order

LOADS = (1, 8)
Logs = NDArray[np.float64]


@attrs.frozen(kw_only=True)
class Drawn:
    """Experiments with a known truth."""

    truths: tuple[float, ...] = (1.0,)
    """Of each arm, as a ratio to the baseline."""
    blocks: int = 5
    noise: float = 0.015
    """Standard deviation of a deployment's log value on a workload."""
    tails: str = "normal"
    """normal; heavy: Student's t with 3 degrees of freedom, scaled to the same deviation; slow:
    normal, and one deployment in ten is 8% slower."""
    block_node: float = 0.0
    """What the node of a block does to all of its deployments alike."""
    own_node: float = 0.0
    """The same where every deployment has a node of its own."""
    walk: float = 0.0
    """Step of a random walk from deployment to deployment."""
    steady: float = 0.0
    """Change with each place in the block."""
    order: str = "counterbalanced"
    noise_floor: bool = True
    workloads: int = 1

    @property
    def arms(self) -> tuple[tuple[str, Role], ...]:
        """Names and roles, in the order of the plan."""
        plain: tuple[tuple[str, Role], ...] = (("baseline", "baseline"),)
        if self.noise_floor:
            plain += (("baseline-repeat", "noise_floor"),)
        return (*plain, *((f"arm-{place}", "arm") for place in range(len(self.truths))))

    def logs(self, chance: np.random.Generator, count: int) -> Logs:
        """Give log values by experiment, block, arm and workload."""
        size = len(self.arms)
        shape = (count, self.blocks, size, self.workloads)
        values = self._own(chance, shape) + self.block_node * chance.standard_normal(
            (count, self.blocks, 1, 1)
        )
        values += self.own_node * chance.standard_normal((count, self.blocks, size, 1))
        values[:, :, size - len(self.truths) :, :] += np.log(self.truths)[:, None]
        return values + self._drift(chance, count)[..., None]

    def _own(self, chance: np.random.Generator, shape: tuple[int, ...]) -> Logs:
        if self.tails != "heavy":
            slow = (self.tails == "slow") * (chance.random(shape) < 0.1)
            return self.noise * chance.standard_normal(shape) + math.log(0.92) * slow
        return self.noise * chance.standard_t(3, shape) / math.sqrt(3)

    def _drift(self, chance: np.random.Generator, count: int) -> Logs:
        """Give what time does, by experiment, block and arm: orders are the product's."""
        size = len(self.arms)
        found = np.zeros((count, self.blocks, size))
        if not (self.walk or self.steady):
            return found
        steps = self.walk * chance.standard_normal((count, self.blocks * size))
        walked = steps.cumsum(axis=1).reshape(count, self.blocks, size)
        by_place = walked + self.steady * np.arange(size)
        for number in range(count):
            order = arm_order(size, self.order, number) if self.order != "fixed" else None
            for block in range(self.blocks):
                placed = order(block + 1) if order else list(range(size))
                found[number, block, placed] = by_place[number, block]
        return found


def points(drawn: Drawn, logs: Logs) -> Iterator[Point]:
    """Give one experiment's values as the index would hold them."""
    for workload in range(drawn.workloads):
        for load in LOADS:
            for block in range(drawn.blocks):
                for place, (arm, role) in enumerate(drawn.arms):
                    yield Point(
                        block=block + 1,
                        arm=arm,
                        role=role,
                        stratum=f"workload-{workload}",
                        sampling="greedy",
                        concurrency=load,
                        metric="output_throughput",
                        value=load * 100 * math.exp(logs[block, place, workload]),
                    )


def effect_logs(drawn: Drawn, logs: Logs) -> Logs:
    """Give the log ratios of the first arm on the first workload, by experiment and block."""
    plain = sum(role != "arm" for _, role in drawn.arms)
    ratios: Logs = logs[:, :, plain, 0] - logs[:, :, :plain, 0].mean(axis=2)
    return ratios
