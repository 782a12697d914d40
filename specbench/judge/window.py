"""Everything that is ruled on one measured window, from its stored facts alone. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from specbench.client_facts import ClientFacts
from specbench.experiment.model import Gates, PrefixCache
from specbench.facts import (
    Acceptance,
    AcceptanceSummary,
    CellSummary,
    CounterDelta,
    CounterNames,
    CounterSnapshot,
    RequestRow,
    ServerSide,
    Verdict,
)
from specbench.judge import cells, counters, server_clock
from specbench.judge.acceptance_sources import reconciled, same_as_requests
from specbench.judge.client import limits
from specbench.judge.steps import server_side
from specbench.methods import Counting, Expected


@attrs.frozen(kw_only=True)
class Judged:
    """The numbers of a window and the verdicts on them."""

    summary: CellSummary
    delta: CounterDelta | None
    """None when the counters were rejected."""
    acceptance: Acceptance | None
    ratios: AcceptanceSummary | None
    server: ServerSide | None
    """None when the counters were rejected."""
    verdicts: tuple[Verdict, ...]

    @property
    def rejected(self) -> bool:
        """Whether the window is listed, but kept out of every average."""
        return cells.rejected(self.verdicts)


def judge_window(
    rows: Sequence[RequestRow],
    *,
    concurrency: int | None,
    client: ClientFacts | None,
    max_in_flight: int | None = None,
    before: CounterSnapshot,
    after: CounterSnapshot,
    settled: bool,
    names: CounterNames,
    expected: Expected,
    counting: Counting | None,
    required: Gates,
    prefix_cache: PrefixCache = "cell",
    more: Sequence[Verdict] = (),
) -> Judged:
    """Give numbers and verdicts of one window. `more` are rulings made elsewhere on the cell.

    Without a `concurrency` its load was open, and `max_in_flight` was its limit.
    """
    summary = cells.summarise(rows, concurrency)
    verdicts = [*cells.gates(rows, concurrency, required), *more]
    verdicts += limits(rows, client, required, max_in_flight=max_in_flight)
    verdicts += counters.rejections(before, after, names)
    if not settled:
        verdicts.append(
            Verdict(
                gate="settled",
                outcome="fail",
                observed="requests still ran, or counters still moved, after 30 s",
                required="an idle server before both snapshots",
                advice="another client uses this server",
            )
        )
    delta = acceptance = ratios = server = None
    if all(verdict.outcome == "pass" for verdict in verdicts if verdict.gate == "counters"):
        delta = counters.difference(before, after, names)
        verdicts.append(counters.foreign_traffic(delta, rows))
        timed = (
            counters.kept_time(before, after, names, required.simulator_late_steps),
            server_clock.agreement(before, after, names, rows),
        )
        verdicts += [verdict for verdict in timed if verdict is not None]
        verdicts.append(counters.prefix_reuse(delta, prefix_cache))
        acceptance = counters.acceptance(delta)
        complete = summary.successes == summary.requests
        server = server_side(
            before,
            after,
            names,
            delta,
            duration_s=summary.duration_s,
            succeeded=summary.successes if complete else None,
        )
    if acceptance is not None:
        verdicts.append(counters.identities(acceptance, expected, counting))
        by_events = delta and reconciled(acceptance, delta, rows, expected.longest_draft)
        by_requests = same_as_requests(acceptance, rows)
        verdicts += [verdict for verdict in (by_events, by_requests) if verdict]
        ratios = counters.summarise(
            acceptance,
            completion_tokens=summary.output_tokens,
            requests_failed=summary.requests - summary.successes,
        )
    return Judged(
        summary=summary,
        delta=delta,
        acceptance=acceptance,
        ratios=ratios,
        server=server,
        verdicts=tuple(verdicts),
    )
