"""What differs between a cell of an arm and the same cell of a baseline. Pure.

Each property is put as a state, such as *covered* or *beyond*: two cells differ when their states
do, and the numbers behind them are told.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import attrs

from specbench.facts import Audit, CounterDelta, Difference, Direction

BELOW = 0.95
"""Share of the asked concurrency under which the server ran below it."""
RATE_APART = 0.01
"""Prefix hit rates that differ by more are told."""
KV_FULL = 0.95
"""Share of the KV cache from which it binds."""


@attrs.frozen(kw_only=True)
class CellServing:
    """How a server served one window. None and an absent fact are unknown."""

    audit: Audit
    longest_draft: int
    """0 without speculation."""
    concurrency: int | None
    """Requests in flight that were asked for; None under a load that asks for none."""
    running: float | None
    """Mean of the requests that the server ran, or that were in flight to it."""
    delta: CounterDelta | None
    held_tokens: int | None
    """Most tokens that as many requests as the concurrency hold in the KV cache at once."""
    kv_usage: float | None = None
    """Highest sampled share of the KV cache in use."""
    prompts: frozenset[str] = frozenset()
    """Prompts that were sent."""


@attrs.frozen
class _State:
    rank: float
    """Higher is faster, all else equal."""
    text: str


Reading = Callable[[CellServing], _State | None]


def cell_differences(baseline: CellServing, arm: CellServing) -> tuple[Difference, ...]:
    """Give every difference between two cells of one load point."""
    return tuple(_differences(baseline, arm))


def _differences(baseline: CellServing, arm: CellServing) -> Iterator[Difference]:
    for fact, (title, read, apart) in READINGS.items():
        ours, theirs = read(baseline), read(arm)
        if ours is None and theirs is None:
            continue
        if ours and theirs and abs(ours.rank - theirs.rank) <= apart:
            continue
        favoured: Direction = "unclear"
        if ours and theirs:
            favoured = "favours baseline" if theirs.rank < ours.rank else "favours speculation"
        texts = [state.text if state else "unknown" for state in (ours, theirs)]
        yield _told(fact, title, texts[0], texts[1], favoured)
    if baseline.prompts != arm.prompts:
        counts = [f"{len(cell.prompts)} prompts" for cell in (baseline, arm)]
        yield _told("prompts", "prompts sent", counts[0], counts[1], "unclear")


def _told(fact: str, title: str, ours: str, theirs: str, favoured: Direction) -> Difference:
    meaning = {
        "favours baseline": "this favours the baseline",
        "favours speculation": "this favours speculation",
        "unclear": "whom this favours is unclear",
    }[favoured]
    return Difference(
        fact=fact,
        baseline=ours,
        arm=theirs,
        direction=favoured,
        meaning=meaning,
        controlled=False,
        sentence=f"{title}: {ours} in the baseline, {theirs} in the arm: {meaning}",
    )


def graph_coverage(cell: CellServing) -> _State | None:
    """Tell whether a step of all sequences fits into a captured graph.

    Sizes are tokens of a step, and each sequence puts in its own token and its draft: concurrency x
    (k + 1) (vllm/config/compilation.py, 0.23 and 0.32). Beyond the largest size a step runs without
    a graph.
    """
    mode = cell.audit.value("cudagraph_mode")
    sizes = cell.audit.typed("cudagraph_capture_sizes")
    if mode == "NONE" or sizes == ():
        return _State(0, "no graphs")
    if not isinstance(sizes, tuple):
        return None
    sequences = _sequences(cell)
    if sequences is None:
        return None
    tokens = sequences * (cell.longest_draft + 1)
    asked = f"{sequences} x {cell.longest_draft + 1} = {tokens} tokens"
    if tokens <= max(sizes):
        return _State(1, f"covered ({asked}, graphs to {max(sizes)})")
    return _State(0, f"beyond the graphs ({asked}, graphs to {max(sizes)})")


def _sequences(cell: CellServing) -> int | None:
    """Give the sequences of a step: those asked for, else those that ran on average."""
    if cell.concurrency is not None or cell.running is None:
        return cell.concurrency
    return max(math.ceil(cell.running), 1)


def _running(cell: CellServing) -> _State | None:
    # Of a single stream the samples between two requests find none: their share is chance.
    if cell.running is None or cell.concurrency in (None, 1):
        return None
    below = cell.running < BELOW * cell.concurrency
    said = f"{cell.running:.1f} of {cell.concurrency} running"
    return _State(0 if below else 1, said)


def _preemptions(cell: CellServing) -> _State | None:
    if cell.delta is None or cell.delta.preemptions is None:
        return None
    return _State(-cell.delta.preemptions, f"{cell.delta.preemptions} preemptions")


def _prefix_hits(cell: CellServing) -> _State | None:
    if cell.delta is None or not cell.delta.prefix_queries or cell.delta.prefix_hits is None:
        return None
    rate = cell.delta.prefix_hits / cell.delta.prefix_queries
    return _State(rate, f"{rate:.1%} of prompt tokens found")


def _kv_bound(cell: CellServing) -> _State | None:
    """Tell whether the KV cache binds: by what was sampled, else by what the requests hold."""
    if cell.kv_usage is not None:
        return _State(-(cell.kv_usage >= KV_FULL), f"KV cache up to {cell.kv_usage:.0%} full")
    tokens = cell.audit.typed("kv_cache_tokens")
    if not isinstance(tokens, int) or not tokens or cell.held_tokens is None:
        return None
    held = cell.held_tokens + (_sequences(cell) or 0) * cell.longest_draft
    full = held / tokens
    return _State(-(full >= KV_FULL), f"requests hold at most {full:.0%} of the KV cache")


READINGS: dict[str, tuple[str, Reading, float]] = {
    "graph_coverage": ("graphs of a decode step", graph_coverage, 0),
    "running": ("requests running", _running, 0),
    "preemptions": ("preemptions", _preemptions, 0),
    "prefix_hit_rate": ("prefix cache", _prefix_hits, RATE_APART),
    "kv_bound": ("KV cache", _kv_bound, 0),
}
"""Each property of a cell: its title, its reading, and how far apart ranks may lie."""
