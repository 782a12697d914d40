"""Numbers that do not fit together, told in words. Pure. Nothing is rejected by them."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import attrs

from specbench.facts import Anomaly

RATE_MOVES = 0.05
"""Acceptance rates of two load points that lie further apart are told, under greedy decoding."""
LENGTH_DIFFERS = 0.02
"""Mean outputs that differ by more from the baseline's are told."""
BEYOND_BOUND = 1.05
"""A gain in TPOT above the tokens of a step by more than this factor is told."""
ENDS_MATTER = 1.05
"""A ratio of throughputs over the whole window and one over its steady part, on both sides of 1 and
further apart than this factor, are told."""

LoadPoint = tuple[int, str, str, int | None, float | None]


@attrs.frozen(kw_only=True)
class Told:
    """A warning of the server's log that was said inside a window, or perhaps was."""

    kind: str
    meaning: str
    line: str
    surely: bool
    """False where the window begins or ends within the second that the log names."""


@attrs.frozen(kw_only=True)
class Measured:
    """What one cell of one deployment gave, as far as it bears on anomalies."""

    block: int
    arm: str
    is_baseline: bool
    stratum: str
    sampling: str
    greedy: bool
    concurrency: int | None
    """None under an open load: such cells are not compared between loads."""
    arrival_rate: float | None = None
    """Requests a second of an open load."""
    drafts: int | None
    acceptance_rate: float | None
    tokens_per_step: float | None
    output_mean: float | None
    """Completion tokens of a successful request."""
    tpot_p50_s: float | None
    output_throughput: float | None
    steady_throughput: float | None
    """Without the filling of the window and its draining."""
    verification: str | None
    """How drafts were verified, by the server's audit."""
    random_prompts: bool
    told: tuple[Told, ...] = ()
    """What the server's log tells of its window."""


def anomalies(cells: Sequence[Measured]) -> tuple[Anomaly, ...]:
    """Give every anomaly of a run, each once."""
    found = (
        *_synthetic(cells),
        *_random_prompts(cells),
        *_moving_acceptance(cells),
        *_at_the_ends(cells),
        *_told_by_the_log(cells),
        *_against_the_baseline(cells),
    )
    return tuple(dict.fromkeys(found))


def _synthetic(cells: Sequence[Measured]) -> Iterator[Anomaly]:
    for cell in cells:
        if cell.verification == "synthetic":
            yield _about(
                cell,
                "synthetic_acceptance",
                "acceptance is synthetic, given to the server: not a measurement of the drafter",
            )


def _random_prompts(cells: Sequence[Measured]) -> Iterator[Anomaly]:
    for cell in cells:
        if cell.random_prompts and cell.drafts:
            yield _about(
                cell,
                "random_prompts",
                "the prompts are random tokens, whose acceptance says nothing about real text",
            )


def _moving_acceptance(cells: Sequence[Measured]) -> Iterator[Anomaly]:
    rates: dict[tuple[str, str, str], dict[int, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    first: dict[tuple[str, str, str], Measured] = {}
    for cell in cells:
        if cell.greedy and cell.acceptance_rate is not None and cell.concurrency is not None:
            key = (cell.arm, cell.stratum, cell.sampling)
            rates[key][cell.concurrency].append(cell.acceptance_rate)
            first.setdefault(key, cell)
    for key, by_load in rates.items():
        means = {load: statistics.fmean(found) for load, found in sorted(by_load.items())}
        if max(means.values()) - min(means.values()) > RATE_MOVES:
            shown = ", ".join(f"{rate:.1%} at c={load}" for load, rate in means.items())
            yield _about(
                first[key],
                "acceptance_moves_with_concurrency",
                f"greedy decoding accepts other shares at other loads: {shown}. Batching changes "
                "the outputs, or drafts are cut short under load",
            )


def _at_the_ends(cells: Sequence[Measured]) -> Iterator[Anomaly]:
    for cell in cells:
        if cell.drafts and cell.acceptance_rate in (0, 1):
            share = "nothing" if cell.acceptance_rate == 0 else "everything"
            yield _about(
                cell,
                "acceptance_at_an_end",
                f"{share} that was drafted was accepted: look at the draft and its vocabulary",
                at_load=True,
            )


def _told_by_the_log(cells: Sequence[Measured]) -> Iterator[Anomaly]:
    for cell in cells:
        for told in cell.told:
            where = (
                "inside this window"
                if told.surely
                else "perhaps inside this window, which begins or ends in that second of the log"
            )
            yield _about(
                cell,
                told.kind,
                f"{told.meaning}; {where}, in block {cell.block}: {told.line}",
                at_load=True,
            )


def _against_the_baseline(cells: Sequence[Measured]) -> Iterator[Anomaly]:
    base: Mapping[LoadPoint, Measured] = {
        _load_point(cell): cell for cell in cells if cell.is_baseline
    }
    for cell in cells:
        plain = base.get(_load_point(cell))
        if plain is None or cell.is_baseline:
            continue
        if plain.output_mean and cell.output_mean:
            apart = cell.output_mean / plain.output_mean - 1
            if abs(apart) > LENGTH_DIFFERS:
                yield _about(
                    cell,
                    "output_length_differs",
                    f"outputs are {apart:+.1%} as long as the baseline's in block {cell.block}: "
                    "throughput and latency compare other work",
                    at_load=True,
                )
        if plain.tpot_p50_s and cell.tpot_p50_s and cell.tokens_per_step:
            gain = plain.tpot_p50_s / cell.tpot_p50_s
            if gain > BEYOND_BOUND * cell.tokens_per_step:
                yield _about(
                    cell,
                    "tpot_contradicts_acceptance",
                    f"TPOT is {gain:.2f} times better than the baseline's in block {cell.block}, "
                    f"and a step gives {cell.tokens_per_step:.2f} tokens: something else differs",
                    at_load=True,
                )
        yield from _decided_by_the_ends(plain, cell)


def _decided_by_the_ends(plain: Measured, cell: Measured) -> Iterator[Anomaly]:
    """Tell a gain that is a loss without the filling and draining of the window, or a loss so."""
    whole = _ratio(cell.output_throughput, plain.output_throughput)
    steady = _ratio(cell.steady_throughput, plain.steady_throughput)
    if whole is None or steady is None or (whole - 1) * (steady - 1) >= 0:
        return
    if max(whole / steady, steady / whole) > ENDS_MATTER:
        yield _about(
            cell,
            "ends_of_the_window_decide",
            f"throughput is {whole:.2f} of the baseline's over the window and {steady:.2f} while "
            f"it was full, in block {cell.block}: too few requests for this load to say which "
            "side gains",
            at_load=True,
        )


def _ratio(arm: float | None, plain: float | None) -> float | None:
    return arm / plain if arm and plain else None


def _load_point(cell: Measured) -> LoadPoint:
    return cell.block, cell.stratum, cell.sampling, cell.concurrency, cell.arrival_rate


def _about(cell: Measured, kind: str, sentence: str, *, at_load: bool = False) -> Anomaly:
    return Anomaly(
        kind=kind,
        arm=cell.arm,
        stratum=cell.stratum,
        sampling=cell.sampling,
        concurrency=cell.concurrency if at_load else None,
        arrival_rate=cell.arrival_rate if at_load else None,
        sentence=sentence,
    )
