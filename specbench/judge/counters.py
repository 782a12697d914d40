"""The counter contract: two snapshots of one process to what happened between them. Pure.

One series per engine label is differenced before anything is summed. Only `_total` series count. A
decrease, another start time or a vanished series rejects the window. Definitions: vLLM 0.33,
vllm/v1/spec_decode/metrics.py and vllm/v1/core/sched/scheduler.py.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from specbench.experiment.model import PrefixCache
from specbench.facts import (
    Acceptance,
    AcceptanceSummary,
    CounterDelta,
    CounterNames,
    CounterSnapshot,
    Outcome,
    RequestRow,
    Verdict,
)
from specbench.methods import Counting, Expected

LARGEST_EXACT = 2**53
"""Largest count that the floats of an exposition hold exactly."""
REQUIRED = "one process, no counter decreased"
FEW_LATE = 3
"""Late steps that any window may have: its first requests come all at once, and hold one up."""
Labels = tuple[tuple[str, str], ...]


def rejections(
    before: CounterSnapshot, after: CounterSnapshot, names: CounterNames
) -> tuple[Verdict, ...]:
    """Give a failed verdict for everything that makes the window's counters useless.

    Without any counters, as behind a gateway that hides them, the verdict is undecided.
    """
    if not before.series and not after.series:
        return (
            Verdict(
                gate="counters",
                outcome="undecided",
                observed="the server tells no counters",
                required=REQUIRED,
                advice="acceptance and foreign traffic are unknown",
            ),
        )
    found = list(_rejections(before, after, names))
    if found:
        return tuple(found)
    return (
        Verdict(
            gate="counters",
            outcome="pass",
            observed=REQUIRED,
            required=REQUIRED,
        ),
    )


def difference(
    before: CounterSnapshot, after: CounterSnapshot, names: CounterNames
) -> CounterDelta:
    """Give the sums over engines of what each engine's counters did.

    Only for windows that `rejections` lets pass. Speculation is None when the server has no
    speculative series, as a vLLM baseline has none.
    """

    def known(name: str) -> int | None:
        found = [value - before.series[key] for key, value in _series(after, name)]
        return round(sum(found)) if found else None

    def delta(name: str) -> int:
        return known(name) or 0

    speculative = any(True for _ in _series(after, names.drafts))
    positions: dict[int, float] = {}
    for key, value in _series(after, names.accepted_per_position):
        place = int(dict(key[1])[names.position_label])
        positions[place] = positions.get(place, 0.0) + value - before.series[key]
    return CounterDelta(
        generation_tokens=delta(names.generation_tokens),
        preemptions=known(names.preemptions),
        prefix_queries=known(names.prefix_queries),
        prefix_hits=known(names.prefix_hits),
        drafts=delta(names.drafts) if speculative else None,
        draft_tokens=delta(names.draft_tokens) if speculative else None,
        accepted_tokens=delta(names.accepted_tokens) if speculative else None,
        accepted_per_position=(
            tuple(round(positions[place]) for place in sorted(positions)) if speculative else None
        ),
        engines=tuple(
            sorted(
                {
                    dict(key[1]).get(names.engine_label, "")
                    for key, _ in _series(after, names.generation_tokens)
                }
            )
        ),
    )


def acceptance(delta: CounterDelta) -> Acceptance | None:
    """Give what speculation did by the counters; None without speculative series."""
    if delta.drafts is None or delta.draft_tokens is None or delta.accepted_tokens is None:
        return None
    return Acceptance(
        drafts=delta.drafts,
        drafted=delta.draft_tokens,
        accepted=delta.accepted_tokens,
        per_position=delta.accepted_per_position,
        source="counters",
    )


def summarise(
    found: Acceptance, *, completion_tokens: int | None, requests_failed: int
) -> AcceptanceSummary:
    """Give the ratios of a window, each None where its denominator is 0 or unknown.

    Accepted counts precede the cut at the end of an output. Each of R requests has one token of its
    prefill, and each draft one of the target's own, unless the output was cut inside that draft,
    which happens once a request at most: of T tokens at most T - drafts are accepted ones. Drafts
    of failed requests are among `drafts`, so with `requests_failed` there is no such bound.
    """
    drafts, drafted, accepted = found.drafts, found.drafted, found.accepted
    tokens = completion_tokens
    return AcceptanceSummary(
        acceptance_rate=accepted / drafted if drafted else None,
        acceptance_length=1 + accepted / drafts if drafts else None,
        per_position=(
            tuple(count / drafts for count in found.per_position)
            if found.per_position is not None and drafts
            else None
        ),
        tokens_per_step=tokens / (tokens - accepted) if tokens and tokens > accepted else None,
        delivered_accepted_max=(
            None if tokens is None or requests_failed else max(min(accepted, tokens - drafts), 0)
        ),
    )


def identities(found: Acceptance, expected: Expected, counting: Counting | None) -> Verdict:
    """Rule whether the speculative counters can be true at all."""
    broken = []
    if counting is None and found.drafted:
        broken.append(f"a method without speculation drafted {found.drafted} tokens")
    if found.accepted > found.drafted:
        broken.append(f"accepted {found.accepted} > drafted {found.drafted}")
    longest = expected.longest_draft
    if longest and found.drafted > longest * found.drafts:
        broken.append(f"drafted {found.drafted} > {longest} x {found.drafts} drafts")
    if counting and counting.full_depth and found.drafted != longest * found.drafts:
        broken.append(f"drafted {found.drafted} is not {longest} x {found.drafts} drafts")
    if found.per_position is not None:
        if sum(found.per_position) != found.accepted:
            broken.append(f"positions sum to {sum(found.per_position)}, not {found.accepted}")
        if list(found.per_position) != sorted(found.per_position, reverse=True):
            broken.append("a later position was accepted more often than an earlier one")
    return Verdict(
        gate="acceptance_identities",
        outcome="fail" if broken else "pass",
        observed="; ".join(broken) or "all hold",
        required="accepted <= drafted <= k x drafts, positions sum to accepted and never rise",
        advice="the counters cannot be trusted in this window" if broken else "",
    )


def foreign_traffic(delta: CounterDelta, rows: Sequence[RequestRow]) -> Verdict:
    """Rule whether the server generated what we asked for, and nothing else.

    Equality is demanded when every request succeeded with usage. Otherwise failed requests may have
    generated up to an unknown count, and the verdict is undecided unless tokens are missing.
    """
    known = sum(row.completion_tokens or 0 for row in rows if row.status == "ok")
    exact = all(row.status == "ok" and row.completion_tokens is not None for row in rows)
    served = delta.generation_tokens
    if exact:
        outcome = "pass" if served == known else "fail"
    else:
        outcome = "fail" if served < known else "undecided"
    return Verdict(
        gate="foreign_traffic",
        outcome=outcome,  # type: ignore[arg-type]  # one of three literals, chosen above
        observed=f"server generated {served} tokens, we received {known}",
        required="equal" if exact else "at least ours; some requests failed or gave no usage",
        advice="another client uses this server" if outcome == "fail" and served > known else "",
    )


def kept_time(
    before: CounterSnapshot, after: CounterSnapshot, names: CounterNames, most_late: float
) -> Verdict | None:
    """Rule whether a simulated server kept its deadlines in the window.

    None for engines that have none, since what a real server takes is what is measured, and where
    no counters are told. Deadlines are absolute, so a late step makes none after it late: medians
    stand as long as few steps are.
    """
    if names.played_steps is None or names.late_steps is None:
        return None
    if not any(True for _ in _series(after, names.played_steps)):
        return None

    def grown(name: str) -> float:
        return sum(value - before.series.get(key, 0.0) for key, value in _series(after, name))

    steps, late = grown(names.played_steps), grown(names.late_steps)
    most = max(FEW_LATE, most_late * steps)
    return Verdict(
        gate="simulator",
        outcome="pass" if late <= most else "fail",
        observed=f"{late:.0f} of {steps:.0f} steps ended over 2 ms late",
        required=f"at most {most_late:.1%}, or {FEW_LATE}",
        advice=(
            "simulator-limited: this machine cannot play the load in time; lower the concurrency "
            "or target.flags.speed"
            if late > most
            else ""
        ),
    )


def prefix_hit_rate(delta: CounterDelta) -> float | None:
    """Give prefix hits / prompt tokens looked up; None where the server looked nothing up."""
    if delta.prefix_hits is None or not delta.prefix_queries:
        return None
    return delta.prefix_hits / delta.prefix_queries


def prefix_reuse(delta: CounterDelta, policy: PrefixCache) -> Verdict:
    """Rule whether the prefix cache was what the experiment asked for."""
    rate = prefix_hit_rate(delta)
    outcome: Outcome = "pass"
    advice = ""
    if policy == "off" and delta.prefix_hits:
        outcome, advice = "fail", "the server was launched with a prefix cache"
    elif policy == "warm" and rate is None:
        outcome, advice = "undecided", "the server states no look-ups: has it a prefix cache?"
    elif policy == "warm" and not delta.prefix_hits:
        outcome, advice = "undecided", "prompts shorter than a block, or a cache too small for them"
    return Verdict(
        gate="prefix_reuse",
        outcome=outcome,
        observed="no look-ups"
        if rate is None
        else f"{rate:.2%} of {delta.prefix_queries} prompt tokens were in the prefix cache",
        required={
            "cell": "whatever the prompts of one pass share",
            "off": "none",
            "warm": "some: every prompt was sent before",
        }[policy],
        advice=advice,
    )


def _rejections(
    before: CounterSnapshot, after: CounterSnapshot, names: CounterNames
) -> Iterator[Verdict]:
    if not after.series:
        yield Verdict(
            gate="counters",
            outcome="fail",
            observed="the server gave no counters after the window",
            required=REQUIRED,
        )
        return
    starts = [dict(_series(snapshot, names.process_start)) for snapshot in (before, after)]
    if starts[0] != starts[1]:
        yield Verdict(
            gate="counters",
            outcome="fail",
            observed="the server process was started anew in the window",
            required=REQUIRED,
        )
    yield from _no_counts((before, after), names)
    yield from _incomplete(after, names)
    yield from _changed(before, after, names)
    if not any(True for _ in _series(after, names.generation_tokens)):
        yield Verdict(
            gate="counters",
            outcome="fail",
            observed=f"no series {names.generation_tokens}",
            required="the engine's counters",
        )


def _no_counts(
    snapshots: tuple[CounterSnapshot, CounterSnapshot], names: CounterNames
) -> Iterator[Verdict]:
    for snapshot in snapshots:
        for key, value in snapshot.series.items():
            if key[0] in _read(names) and not _is_count(value):
                yield Verdict(
                    gate="counters",
                    outcome="fail",
                    observed=f"{_shown(key)} is {value:g}, which is no count",
                    required="whole numbers from 0 to 2^53",
                )


def _changed(
    before: CounterSnapshot, after: CounterSnapshot, names: CounterNames
) -> Iterator[Verdict]:
    for key, value in before.series.items():
        if key[0] not in _read(names):
            continue
        if key not in after.series:
            yield Verdict(
                gate="counters",
                outcome="fail",
                observed=f"series {_shown(key)} vanished",
                required=REQUIRED,
            )
        elif not after.series[key] >= value:
            yield Verdict(
                gate="counters",
                outcome="fail",
                observed=f"{_shown(key)} went from {value:g} to {after.series[key]:g}",
                required=REQUIRED,
            )
    for key, value in after.series.items():
        if key[0] in _read(names) and key not in before.series:
            yield Verdict(
                gate="counters",
                outcome="fail",
                observed=f"series {_shown(key)} appeared with {value:g}",
                required="every series stands in both snapshots",
            )


def _is_count(value: float) -> bool:
    """Tell whether a float is a whole number that it holds exactly."""
    return math.isfinite(value) and 0 <= value <= LARGEST_EXACT and value == int(value)


def _incomplete(after: CounterSnapshot, names: CounterNames) -> Iterator[Verdict]:
    """Give a failed verdict where an engine lacks a series that another count is read with."""
    engines = {
        name: {dict(key[1]).get(names.engine_label) for key, _ in _series(after, name)}
        for name in (names.generation_tokens, *_speculative(names))
    }
    told = engines.pop(names.generation_tokens)
    for name, found in engines.items():
        if any(engines.values()) and found != told:
            yield Verdict(
                gate="counters",
                outcome="fail",
                observed=f"{name} is told for {len(found)} of {len(told)} engines",
                required="every speculative series of every engine, or none",
            )
    for key, _ in _series(after, names.accepted_per_position):
        if not dict(key[1]).get(names.position_label, "").isdecimal():
            yield Verdict(
                gate="counters",
                outcome="fail",
                observed=f"{_shown(key)} names no position",
                required=f"a whole number in {names.position_label}",
            )


def _speculative(names: CounterNames) -> tuple[str, ...]:
    return (
        names.drafts,
        names.draft_tokens,
        names.accepted_tokens,
        names.accepted_per_position,
    )


def _series(snapshot: CounterSnapshot, name: str) -> Iterator[tuple[tuple[str, Labels], float]]:
    return ((key, value) for key, value in snapshot.series.items() if key[0] == name)


def _read(names: CounterNames) -> frozenset[str]:
    return frozenset(
        (
            *_speculative(names),
            names.generation_tokens,
            names.preemptions,
            names.prefix_queries,
            names.prefix_hits,
        )
    )


def _shown(key: tuple[str, Labels]) -> str:
    labels = ",".join(f"{name}={value}" for name, value in key[1])
    return f"{key[0]}{{{labels}}}"
