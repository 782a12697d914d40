"""What a person declares beforehand about the decision: metric, loads and limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import attrs

from specbench.experiment.said import said

DecisionMetric = Literal[
    "output_throughput",
    "tpot_p50_s",
    "tpot_p95_s",
    "ttft_p50_s",
    "ttft_p95_s",
    "e2e_p50_s",
    "e2e_p95_s",
]


@attrs.frozen(kw_only=True)
class Decision:
    """What carries the decision, declared beforehand. All else is descriptive."""

    metric: DecisionMetric = attrs.field(
        default="output_throughput",
        metadata=said("The one metric that a gain is claimed on. Times gain when they fall."),
    )
    at: tuple[float, ...] = attrs.field(
        default=(),
        metadata=said(
            "Load points that count: a workload's effect is the geometric mean over them in each "
            "block. Every one when left out.",
            uniqueItems=True,
        ),
    )
    materiality: float = attrs.field(
        default=0.03,
        metadata=said("Least gain that is worth a change: 0.03 is 3%.", minimum=0),
    )
    regression: float = attrs.field(
        default=0.05,
        metadata=said(
            "Largest loss on a workload that could be borne: 0.05 is 5%.",
            exclusiveMinimum=0,
            exclusiveMaximum=1,
        ),
    )
    within_best: float = attrs.field(
        default=0.05,
        metadata=said("How near to the best arm of a workload counts as near.", minimum=0),
    )
    aa_spread: float = attrs.field(
        default=0.10,
        metadata=said(
            "Most that the two baselines of a block may differ by, of their mean: beyond it "
            "nothing is claimed.",
            exclusiveMinimum=0,
        ),
    )
    traffic_mix: Mapping[str, float] = attrs.field(
        factory=dict,
        metadata=said("Share of each stratum in the requests to serve; the shares sum to 1."),
    )
