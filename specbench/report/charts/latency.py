"""Distributions of TPOT and TTFT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt
import numpy as np

from specbench.report.charts.figure import (
    Figure,
    chosen_rows,
    colour_of_arms,
    distinct,
    inline,
    sized,
)
from specbench.report.content import Content, Row

MOST_STEPS = 200
"""Most points of one distribution: its evenly spaced quantiles."""


def latency(content: Content) -> Iterator[Figure]:
    """Give the distributions of TPOT and TTFT of every cell."""
    about = content.load[0].partition(" (")[0]
    for cell in distinct(content.requests, "stratum", "sampling", "load_point"):
        stratum, sampling, load_point = cell
        chosen = chosen_rows(
            content.requests, stratum=stratum, sampling=sampling, load_point=load_point
        )
        for quantity, name in (("tpot_ms", "TPOT"), ("ttft_ms", "TTFT")):
            yield Figure(
                name=f"{name.lower()}-{stratum}-{sampling}-{content.load[1]}{load_point:g}",
                section="latency",
                title=f"{name}, {stratum}, {sampling}, {about} {load_point:g}",
                chart=sized(_distribution(content, chosen, quantity, name)),
            )


def _distribution(content: Content, chosen: Sequence[Row], quantity: str, name: str) -> Any:
    steps = []
    for arm, block in distinct(chosen, "arm", "block"):
        found = chosen_rows(chosen, arm=arm, block=block)
        values = sorted(row[quantity] for row in found if row[quantity] is not None)
        steps += [
            {"arm": arm, "block": block, "ms": float(np.quantile(values, share)), "share": share}
            for share in np.linspace(0, 1, min(len(values), MOST_STEPS)).tolist()
        ]
    return (
        alt.Chart(inline(steps))
        .mark_line(strokeWidth=1.5, opacity=0.85)
        .encode(
            x=alt.X("ms:Q", title=f"{name} (ms)", scale=alt.Scale(zero=False)),
            y=alt.Y("share:Q", title="share of requests", axis=alt.Axis(format="%")),
            color=colour_of_arms(content),
            detail="block:N",
        )
    )
