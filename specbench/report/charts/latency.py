"""Distributions of TPOT and TTFT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt
import numpy as np

from specbench.report.charts.figure import (
    Figure,
    arms_drawn,
    chosen_rows,
    distinct,
    inline,
    sized,
)
from specbench.report.content import Content, Row

MOST_STEPS, LEAST_STEPS = 200, 12
"""Points of one distribution: its evenly spaced quantiles."""
MOST_POINTS = 12_000
"""Of all distributions together, so that a page of many deployments stays below 3 MB."""


def latency(content: Content) -> Iterator[Figure]:
    """Give the distributions of TPOT and TTFT of every cell."""
    about = content.load[0].partition(" (")[0]
    lines = len(distinct(content.requests, "stratum", "sampling", "load_point", "arm", "block"))
    most = max(LEAST_STEPS, min(MOST_STEPS, MOST_POINTS // max(2 * lines, 1)))
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
                chart=sized(_distribution(content, chosen, quantity, name, most)),
            )


def _distribution(
    content: Content, chosen: Sequence[Row], quantity: str, name: str, most: int
) -> Any:
    colour, dash = arms_drawn(content, chosen)
    steps = []
    for arm, block in distinct(chosen, "arm", "block"):
        found = chosen_rows(chosen, arm=arm, block=block)
        values = sorted(row[quantity] for row in found if row[quantity] is not None)
        if not values:
            continue
        # Four digits: more cannot be seen, and fill the page.
        shares = np.linspace(0, 1, min(len(values), most)).round(4)
        steps += [
            {"arm": arm, "block": block, "ms": float(f"{value:.4g}"), "share": share}
            for share, value in zip(
                shares.tolist(), np.quantile(values, shares).tolist(), strict=True
            )
        ]
    return (
        alt.Chart(inline(steps))
        .mark_line(strokeWidth=1.5, opacity=0.85)
        .encode(
            x=alt.X("ms:Q", title=f"{name} (ms)", scale=alt.Scale(zero=False)),
            y=alt.Y("share:Q", title="share of requests", axis=alt.Axis(format="%")),
            color=colour,
            strokeDash=dash,
            detail="block:N",
        )
    )
