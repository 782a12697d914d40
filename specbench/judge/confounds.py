"""What differs between an arm's deployment and a baseline's, besides the method. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from specbench.facts import Audit, Difference, Direction
from specbench.methods import Confound
from specbench.properties import property_of, shown, typed

BUDGETS = ("max_num_scheduled_tokens", "max_num_batched_tokens")
"""The token budget of a step is the first of these that is stated."""
SPEAKING = {
    "favours baseline": "this favours the baseline",
    "favours speculation": "this favours speculation",
    "unclear": "whom this favours is unclear",
}

MUST_BE_EQUAL = "these must be equal, so the comparison is rejected"


def differences(baseline: Audit, arm: Audit, named: Iterable[Confound]) -> tuple[Difference, ...]:
    """Give every difference between two audits, controlled ones first.

    A fact that only one side states is a difference to `unknown`, and rejects nothing. What a
    method says of a confound is taken where the arm has the value that it says so of.
    """
    meanings = {confound.fact: confound for confound in named}
    found = list(_differences(baseline, arm, meanings))
    return tuple(sorted(found, key=lambda difference: (not difference.controlled, difference.fact)))


def scoped(by_arm: Mapping[str, Sequence[Difference]]) -> dict[str, tuple[Difference, ...]]:
    """Give the differences of each speculative arm, told whether all of these arms share them."""
    having = [
        {(difference.fact, difference.arm) for difference in found} for found in by_arm.values()
    ]
    common = set.intersection(*having) if having else set()
    return {
        arm: tuple(
            attrs.evolve(
                difference,
                scope="common" if (difference.fact, difference.arm) in common else "asymmetric",
            )
            for difference in found
        )
        for arm, found in by_arm.items()
    }


def direction(name: str, baseline: str | None, arm: str | None) -> Direction:
    """Give whom a difference favours, by what more of the property does to a server."""
    if baseline is None or arm is None:
        return "unclear"
    if name == "cudagraph_mode" and "NONE" in (baseline, arm):
        return "favours baseline" if arm == "NONE" else "favours speculation"
    if name == "per_request_metrics" and "none" in (baseline, arm):
        return "favours baseline" if baseline == "none" else "favours speculation"
    ours, theirs, more = typed(name, baseline), typed(name, arm), property_of(name).more
    if (
        more == "unclear"
        or not isinstance(ours, (int, float))
        or not isinstance(theirs, (int, float))
    ):
        return "unclear"
    return "favours baseline" if (theirs < ours) == (more == "faster") else "favours speculation"


def _differences(
    baseline: Audit, arm: Audit, meanings: Mapping[str, Confound]
) -> Iterator[Difference]:
    names = {fact.name for fact in (*baseline.facts, *arm.facts)}
    if names & set(BUDGETS):
        names = names - set(BUDGETS) | {BUDGETS[0]}
    for name in sorted(names):
        about = property_of(name)
        ours, theirs = _stated(baseline, name), _stated(arm, name)
        if about.part in ("own", "reading") or ours == theirs:
            continue
        favoured = direction(name, ours, theirs)
        named = meanings.get(name)
        says = named is not None and named.value in (None, theirs)
        controlled = about.part == "controlled" and None not in (ours, theirs)
        meaning = named.meaning if named is not None and says else SPEAKING[favoured]
        meaning = MUST_BE_EQUAL if controlled else meaning
        yield Difference(
            fact=name,
            baseline=ours or "unknown",
            arm=theirs or "unknown",
            direction=favoured,
            meaning=meaning,
            controlled=controlled,
            sentence=f"{about.title}: {shown(name, ours)} in the baseline, {shown(name, theirs)} "
            f"in the arm: {meaning}",
        )


def _stated(audit: Audit, name: str) -> str | None:
    """Give what an audit states; without speculation vLLM schedules the whole batched budget."""
    if name == BUDGETS[0]:
        return audit.value(BUDGETS[0]) or audit.value(BUDGETS[1])
    return audit.value(name)
