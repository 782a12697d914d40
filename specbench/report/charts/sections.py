"""The parts of the page between the effects and what differed, in their order."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from specbench.report.charts.acceptance import acceptance, positions
from specbench.report.charts.draft_length import draft_lengths
from specbench.report.charts.drift import drift
from specbench.report.charts.figure import Figure
from specbench.report.charts.latency import latency
from specbench.report.charts.speedup import speedups
from specbench.report.charts.step_cost import step_costs
from specbench.report.content import Content
from specbench.report.limits import limits
from specbench.report.tables.explanatory import correlations_table, drift_table, step_cost_table


@attrs.frozen(kw_only=True)
class Section:
    """A part of the page."""

    title: str
    about: str
    """What the quantities are, and what they cannot show."""
    beside: Callable[[Content], str] | None = None
    """Gives HTML below the figures: tables or a sentence. Without both there is no section."""


SECTIONS = {
    "speedup": Section(
        title="Speed-up by workload and load",
        about="Output throughput of an arm / baseline of the same block, a row for each load point "
        "(the small number). Dots: one block each; thick stroke: their geometric mean; line: 95% "
        "interval, dashed where fewer than 5 blocks make it wide. The grey band is what the "
        "baseline launched again differed by (A/A, lowest to highest block): an arm inside it "
        "shows nothing. Without a noise floor there is no band, and nothing tells how far equal "
        "arms lie apart.",
    ),
    "draft_length": Section(
        title="Draft length against speed-up",
        about="Arms that differ in k alone, a line for each load point, darker with load. The best "
        "of several k looks better than it is: it was chosen by the noise, too.",
    ),
    "acceptance": Section(
        title="Acceptance against speed-up",
        about="One dot a block and cell: accepted / drafted tokens by the server's counters, and "
        "tokens per step, against the throughput ratio. A dot above the dashed line gained more "
        "than its tokens per step allow: something else differed, or it is noise. Explanatory: "
        "acceptance is not manipulated here, and arms differ in drafter and draft length at once.",
        beside=correlations_table,
    ),
    "step_cost": Section(
        title="What a step costs, and what pays for it",
        about="Step cost: decode time of a step, arm / baseline of the block at equal realised "
        "batch (within 5%). Tokens a step / cost is the gain in TPOT: a dot right of its stroke "
        "gains, and where both are equal the arm breaks even. Length is the acceptance length that "
        "reached clients; the break-even length is the one at which TPOT would equal the "
        "baseline's, if a step cost the same and as many steps drafted. Bound: no gain in "
        "throughput above it, unless a step got cheaper (the lower of tokens per step and "
        "acceptance length). Ceiling: the gain at this cost if all that may be drafted were "
        "accepted. Steps that also prefill other requests are in the cost: where the baseline "
        "serves in waves (all prefill together, then all decode) and an arm does not, the arm "
        "looks dearer than it is. Throughput and E2E are free of that.",
        beside=step_cost_table,
    ),
    "positions": Section(
        title="Acceptance by position",
        about="Accepted at position i / drafts, one line a block. The values of a line sum to the "
        "acceptance length minus one. Drafts shorter than i count as not accepted.",
    ),
    "latency": Section(
        title="Distributions of TPOT and TTFT",
        about="Share of requests at or below a time, one line a deployment. Requests of one "
        "server are no independent repeats: compare lines of one colour first.",
    ),
    "drift": Section(
        title="Drift over time and node",
        about="Every deployment against the mean of its own arm in the same cells: what is not "
        "level here is time or node. Described, never corrected for; pairs inside a block cancel "
        "what moves slowly.",
        beside=drift_table,
    ),
    "limits": Section(
        title="Limits of this result",
        about="What no number on this page shows.",
        beside=limits,
    ),
}


def figures(content: Content) -> list[Figure]:
    """Give every figure that the run has values for."""
    return [
        *speedups(content),
        *draft_lengths(content),
        *acceptance(content),
        *step_costs(content),
        *positions(content),
        *latency(content),
        *drift(content),
    ]
