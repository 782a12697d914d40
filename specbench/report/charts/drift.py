"""Drift: every deployment against its own arm, over the time of the run."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

import altair as alt

from specbench.analysis.effects import geometric_mean
from specbench.report.charts.figure import Figure, inline, ratio, ratio_scale, sized
from specbench.report.content import Content, Row

PLAIN, SPECULATIVE = "baseline", "other arms"
COLOURS = {PLAIN: "#222222", SPECULATIVE: "#7aa2d6"}


def drift(content: Content) -> Iterator[Figure]:
    """Give throughput over time, a dot a deployment; with one deployment an arm there is none."""
    points = list(_deployments(content))
    if not points:
        return
    domain = list(COLOURS)
    chart = (
        alt.Chart(inline(points))
        .mark_point(filled=True, size=60, opacity=0.85)
        .encode(
            x=alt.X("minutes:Q", title="minutes since the first window"),
            y=alt.Y(
                "ratio:Q",
                title="throughput / mean of the same arm",
                scale=ratio_scale([row["ratio"] for row in points]),
            ),
            color=alt.Color(
                "is:N",
                scale=alt.Scale(domain=domain, range=list(COLOURS.values())),
                title=None,
                legend=alt.Legend(orient="top"),
            ),
            shape=alt.Shape("node:N", title="node", legend=alt.Legend(orient="right")),
            tooltip=["arm:N", "block:N", "node:N", ratio("ratio"), ratio("minutes")],
        )
    )
    line = alt.Chart(inline([{"ratio": 1.0}])).mark_rule(strokeDash=[4, 3], color="#666")
    yield Figure(
        name="drift",
        section="drift",
        title="all cells of a deployment, geometric mean",
        chart=sized(alt.layer(line.encode(y="ratio:Q"), chart)),
    )


def _deployments(content: Content) -> Iterator[Row]:
    """Give each deployment's cells against the arm's mean in the same cell, as one number."""
    usable = [row for row in content.cells if not row["rejected"] and row["output_throughput"]]
    cells: dict[tuple[object, ...], list[Row]] = defaultdict(list)
    for row in usable:
        place = (row["arm"], row["stratum"], row["sampling"], row["load_point"])
        cells[place].append(row)
    found: dict[str, list[tuple[Row, float]]] = defaultdict(list)
    for rows in cells.values():
        if len(rows) > 1:
            mean = geometric_mean([row["output_throughput"] for row in rows])
            for row in rows:
                found[row["deployment_id"]].append((row, row["output_throughput"] / mean))
    start = min((row["started_unix_s"] for row in usable), default=math.nan)
    nodes = {row["deployment_id"]: row["host"] or "unknown" for row in content.deployments}
    for deployment, values in found.items():
        row = values[0][0]
        yield {
            "arm": row["arm"],
            "block": row["block"],
            "node": nodes[deployment],
            "is": PLAIN if row["role"] in ("baseline", "noise_floor") else SPECULATIVE,
            "minutes": (min(r["started_unix_s"] for r, _ in values) - start) / 60,
            "ratio": geometric_mean([value for _, value in values]),
        }
