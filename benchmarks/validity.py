"""Error rates of what specbench claims, measured on experiments whose truth is known.

    python benchmarks/validity.py           # minutes; exit 1 when a limit is missed
    python benchmarks/validity.py --quick   # seconds, fewer experiments: the same code
    python benchmarks/validity.py --write   # also stores the rows that docs/statistics.md shows

Experiments are drawn, not served: a deployment's log value is its arm's, plus noise of its own,
plus what its block or node does to it. Everything after that is the product's own code, from points
to decisions. Each row has its seed, fixed beforehand. The rows of the correctness gate come from
validity_gate.py.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import attrs
import numpy as np
import validity_gate
from drawn_experiments import LOADS, Drawn, Logs, effect_logs, points

from specbench.analysis.bootstrap import MEASURED_COVERAGE, percentile_bounds
from specbench.analysis.decision import WorkloadDecision, decisions
from specbench.analysis.effects import paired
from specbench.analysis.intervals import t_interval
from specbench.analysis.noise_floor import NoiseFloor, noise_floors
from specbench.analysis.workload_gains import workload_gains
from specbench.experiment.decision import Decision

STORED = Path(__file__).with_name("validity.json")
DOCS = Path(__file__).parents[1] / "docs/statistics.md"
BEGIN, END = "<!-- validity -->\n", "\n<!-- /validity -->"
SEED = 8
QUICK = 40
"""Times fewer experiments in the quick form."""


@attrs.frozen(kw_only=True)
class Row:
    """One measured rate."""

    name: str
    must: str
    """Empty where nothing is demanded: told, so that nobody has to guess."""
    measured: str
    holds: bool | None


def ruled(
    drawn: Drawn, logs: Logs, declared: Decision
) -> tuple[tuple[WorkloadDecision, ...], tuple[NoiseFloor, ...]]:
    """Rule on one experiment with the product's own functions."""
    gains = workload_gains(paired(points(drawn, logs)), declared.metric, LOADS)
    floors = noise_floors(gains, declared.aa_spread)
    return decisions(gains, floors, declared, stage="confirmation", barred={}), floors


def coverage(drawn: Drawn, seed: int, count: int) -> tuple[float, float]:
    """Give how often the t interval and the bootstrap hold the truth."""
    logs = effect_logs(drawn, drawn.logs(np.random.default_rng([SEED, seed]), count))
    truth = math.log(drawn.truths[0])
    intervals = [t_interval(list(row))[0] for row in logs]
    held = [i is not None and i.low <= drawn.truths[0] <= i.high for i in intervals]
    bounds = np.concatenate([percentile_bounds(part) for part in np.array_split(logs, 20)])
    drawn_held = (bounds[:, 0] <= truth) & (truth <= bounds[:, 1])
    return float(np.mean(held)), float(np.mean(drawn_held))


def rate(
    drawn: Drawn,
    seed: int,
    count: int,
    found: Callable[[tuple[WorkloadDecision, ...], tuple[NoiseFloor, ...]], bool],
    declared: Decision | None = None,
) -> float:
    """Give the share of experiments in which something is found."""
    every = drawn.logs(np.random.default_rng([SEED, seed]), count)
    return sum(found(*ruled(drawn, logs, declared or Decision())) for logs in every) / count


def stopped_early(seed: int, count: int, declared: Decision) -> float:
    """Give the share of A/A experiments that claim a gain after 5, 6, 7 or 8 blocks."""
    drawn = Drawn(blocks=8)
    every = drawn.logs(np.random.default_rng([SEED, seed]), count)
    return (
        sum(
            any(
                claimed(*ruled(attrs.evolve(drawn, blocks=blocks), logs[:blocks], declared))
                for blocks in range(5, 9)
            )
            for logs in every
        )
        / count
    )


def claimed(ruling: Sequence[WorkloadDecision], _: Sequence[NoiseFloor]) -> bool:
    """Tell whether any gain is claimed."""
    return any(one.gain == "claimed" for one in ruling)


def voided(_: Sequence[WorkloadDecision], floors: Sequence[NoiseFloor]) -> bool:
    """Tell whether the A/A keeps everything from being claimed."""
    return any(floor.outcome != "pass" for floor in floors)


def absent(ruling: Sequence[WorkloadDecision], _: Sequence[NoiseFloor]) -> bool:
    """Tell whether a regression is shown absent."""
    return any(one.regression == "shown_absent" for one in ruling)


def present(ruling: Sequence[WorkloadDecision], _: Sequence[NoiseFloor]) -> bool:
    """Tell whether a regression is present."""
    return any(one.regression == "present" for one in ruling)


def rows(shorter: int = 1) -> Iterator[Row]:
    """Give every row, with `shorter` times fewer experiments."""
    yield from coverage_rows(20_000 // shorter)
    yield from bootstrap_rows(20_000 // shorter)
    yield from claim_rows(2_000 // shorter)
    yield from regression_rows(10_000 // shorter)
    yield from gate_rows(shorter)


def coverage_rows(count: int) -> Iterator[Row]:
    """Give the coverage of the decision interval, with the bootstrap's beside it."""
    three = (1.05, 1.0, 0.95)
    kinds = {
        "normal noise": (Drawn(truths=three), True),
        "heavy tails (t, 3 degrees of freedom)": (Drawn(truths=three, tails="heavy"), True),
        "drift: a walk of 1% a deployment": (Drawn(truths=three, walk=0.01), True),
        "drift: steadily 0.5% a place": (Drawn(truths=three, steady=0.005), True),
        "drift: steadily 2% a place": (Drawn(truths=three, steady=0.02), False),
        "drift: steadily 2% a place, orders at random": (
            Drawn(truths=three, steady=0.02, order="random"),
            False,
        ),
        "drift: steadily 2% a place, one fixed order (never planned)": (
            Drawn(truths=three, steady=0.02, order="fixed"),
            False,
        ),
        "one deployment in ten 8% slower": (Drawn(truths=three, tails="slow"), False),
    }
    for place, (name, (drawn, demanded)) in enumerate(kinds.items()):
        for blocks in (5, 8):
            # Orders are drawn one by one, which takes its time.
            fewer = count // 5 if drawn.steady or drawn.walk else count
            held, boot = coverage(attrs.evolve(drawn, blocks=blocks), 10 * place + blocks, fewer)
            yield Row(
                name=f"decision interval holds the truth, {blocks} blocks, {name}",
                must="93% to 97%" if demanded else "",
                measured=f"{held:.1%} (bootstrap {boot:.1%})",
                holds=0.93 <= held <= 0.97 if demanded else None,
            )


def bootstrap_rows(count: int) -> Iterator[Row]:
    """Give the bootstrap's coverage, which its label must be."""
    for place, (blocks, label) in enumerate(MEASURED_COVERAGE.items()):
        _, boot = coverage(Drawn(blocks=blocks), 100 + place, count)
        yield Row(
            name=f"bootstrap holds the truth, {blocks} blocks, normal noise",
            must=f"its label {label:.0%}, within 1",
            measured=f"{boot:.1%}",
            holds=abs(boot - label) <= 0.01,
        )


def claim_rows(count: int) -> Iterator[Row]:
    """Give how often a gain is claimed, where there is none and where there is one."""
    aa = Drawn(truths=(1.0,) * 4, workloads=3, block_node=0.06)
    apart = attrs.evolve(aa, block_node=0.0, own_node=0.06)
    bare = Decision(materiality=0.0)
    lax = Decision(materiality=0.0, aa_spread=1.0)
    one = Drawn(truths=(1.05,))
    yield _most("A/A: any gain claimed, 4 arms x 3 workloads", 0.05, rate(aa, 200, count, claimed))
    yield _most(
        "A/A without materiality, Holm alone: any gain claimed",
        0.05,
        rate(aa, 201, count, claimed, bare),
    )
    yield _most(
        "A/A, every deployment on a node of its own: any gain claimed",
        0.05,
        rate(apart, 202, count, claimed),
    )
    yield _most(
        "A/A, the same, neither materiality nor a bound on the A/A spread: any gain claimed",
        0.05,
        rate(apart, 203, count, claimed, lax),
    )
    yield _told("sound runs that the A/A voids", rate(aa, 204, count, voided))
    yield _told(
        "runs that the A/A voids, every deployment on a node of its own",
        rate(apart, 205, count, voided),
    )
    yield _told(
        "A/A, one arm, looked at after 5, 6, 7 and 8 blocks: any gain claimed",
        stopped_early(206, count, Decision()),
    )
    yield _told(
        "A/A, looked at as often, without materiality: any gain claimed",
        stopped_early(207, count, bare),
    )
    yield _least("+5% is claimed, 5 blocks, one arm", 0.90, rate(one, 208, count, claimed))
    yield _told(
        "+5% is claimed, 5 blocks, one arm, no noise floor",
        rate(attrs.evolve(one, noise_floor=False), 209, count, claimed),
    )
    yield _told(
        "+5% on all of 3 workloads: each claimed",
        rate(
            attrs.evolve(one, workloads=3),
            210,
            count,
            lambda found, _: all(d.gain == "claimed" for d in found),
        ),
    )


def regression_rows(count: int) -> Iterator[Row]:
    """Give how often a loss is missed, or seen where there is none."""
    loss = Drawn(truths=(0.92,), noise_floor=False)
    even = Drawn(truths=(1.0,), block_node=0.06)
    yield _most("-8% is shown absent", 0.01, rate(loss, 300, count, absent))
    yield _most(
        "-8% is shown absent, every deployment on a node of its own",
        0.01,
        rate(attrs.evolve(loss, own_node=0.06), 301, count, absent),
    )
    yield _most(
        "-8% is shown absent, every deployment on a node of its own, 8 blocks",
        0.01,
        rate(attrs.evolve(loss, own_node=0.06, blocks=8), 302, count, absent),
    )
    yield _most(
        "-8% is shown absent, heavy tails of 6%",
        0.01,
        rate(attrs.evolve(loss, noise=0.06, tails="heavy"), 307, count, absent),
    )
    yield _told(
        "-5%, the limit itself, is shown absent",
        rate(attrs.evolve(loss, truths=(0.95,)), 303, count, absent),
    )
    yield _most("0% is a regression", 0.01, rate(even, 304, count, present))
    yield _told(
        "0% is a regression, every deployment on a node of its own",
        rate(attrs.evolve(even, block_node=0.0, own_node=0.06), 305, count, present),
    )
    yield _told("0% is shown to be no regression", rate(even, 306, count, absent))


def gate_rows(shorter: int) -> Iterator[Row]:
    """Give the rows of the correctness gate."""
    for row in validity_gate.rows(shorter):
        yield Row(name=row.name, must=row.must, measured=row.measured, holds=row.holds)


def table(found: Sequence[Row]) -> str:
    """Give the rows in markdown, as docs/statistics.md holds them."""
    lines = ["| what | must | measured | |", "| --- | --- | --- | --- |"]
    marks = {True: "holds", False: "**missed**", None: "told"}
    lines += [f"| {r.name} | {r.must} | {r.measured} | {marks[r.holds]} |" for r in found]
    return "\n".join(lines)


def stored() -> list[Row]:
    """Give the rows of the last whole measurement."""
    return [Row(**row) for row in json.loads(STORED.read_text())]


def _most(name: str, limit: float, measured: float) -> Row:
    shown = f"at most {limit:.0%}"
    return Row(name=name, must=shown, measured=f"{measured:.2%}", holds=measured <= limit)


def _least(name: str, limit: float, measured: float) -> Row:
    shown = f"at least {limit:.0%}"
    return Row(name=name, must=shown, measured=f"{measured:.2%}", holds=measured >= limit)


def _told(name: str, measured: float) -> Row:
    return Row(name=name, must="", measured=f"{measured:.2%}", holds=None)


def main() -> int:
    """Measure, print, and tell by the exit code whether every limit holds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a shorter trial")
    parser.add_argument(
        "--write", action="store_true", help="store validity.json and the table of the docs"
    )
    asked = parser.parse_args()
    found = list(rows(QUICK if asked.quick else 1))
    print(table(found))
    if asked.write:
        STORED.write_text(json.dumps([attrs.asdict(row) for row in found], indent=1) + "\n")
        text = DOCS.read_text()
        before, _, rest = text.partition(BEGIN)
        DOCS.write_text(before + BEGIN + table(found) + END + rest.partition(END)[2])
    return int(any(row.holds is False for row in found))


if __name__ == "__main__":
    sys.exit(main())
