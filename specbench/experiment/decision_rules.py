"""Rules of the declared decision: its loads and strata are those of the experiment."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from specbench.errors import Problem
from specbench.experiment.model import Experiment
from specbench.experiment.yaml_text import ValuePath

SHARE_TOLERANCE = 1e-6
"""By which shares may miss 1, as written decimals do."""


def decision_problems(
    experiment: Experiment, strata: Collection[str]
) -> Iterator[tuple[ValuePath, Problem]]:
    """Give load points and shares of strata that the experiment does not have."""
    load, decision = experiment.load, experiment.decision
    points: tuple[float, ...] = load.open.rate if load.open else ()
    points = load.closed.concurrency if load.closed else points
    for place, asked in enumerate(decision.at):
        if asked not in points:
            known = ", ".join(f"{point:g}" for point in points)
            hint = f"one of: {known}" if known else "leave it out: a trace has one load"
            yield ("decision", "at", place), Problem(f"{asked:g} is no load point", hint)
    at = ("decision", "traffic_mix")
    for stratum, share in decision.traffic_mix.items():
        if stratum not in strata:
            hint = f"one of: {', '.join(strata)}"
            yield (*at, stratum), Problem(f"a share of {stratum!r}, which is no stratum", hint)
        if share < 0:
            yield (*at, stratum), Problem(f"the share of {stratum!r} is below 0")
    total = sum(decision.traffic_mix.values())
    if decision.traffic_mix and abs(total - 1) > SHARE_TOLERANCE:
        yield at, Problem(f"the shares sum to {total:g}", "make them sum to 1")
