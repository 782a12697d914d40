"""The parts of the page between the effects and what differed, in their order."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from specbench.report.charts.acceptance import acceptance, positions
from specbench.report.charts.figure import Figure
from specbench.report.charts.latency import latency
from specbench.report.charts.speedup import speedups
from specbench.report.content import Content


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
        about="Output throughput of an arm / baseline of the same block. Small dots: one block "
        "each; bars: the geometric mean. Grey, where there is one, is the baseline launched again: "
        "what equal arms differ by.",
    ),
    "acceptance": Section(
        title="Acceptance against speed-up",
        about="One dot a block and cell: accepted / drafted tokens by the server's counters, "
        "against the throughput ratio. Descriptive; acceptance is not manipulated here.",
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
}


def figures(content: Content) -> list[Figure]:
    """Give every figure that the run has values for."""
    return [*speedups(content), *acceptance(content), *positions(content), *latency(content)]
