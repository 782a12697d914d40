"""The correctness gate: do an arm's greedy outputs leave the baseline's more than equal servers do?

Rules on captures of one concurrency at a time. A pass is no evidence of a violation, never a proof
that there is none. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import attrs

from specbench.capture_facts import Capture
from specbench.experiment.model import Margins
from specbench.judge.controls import (
    ControlPairs,
    cross_deployment,
    own_controls,
    within_deployment,
)
from specbench.judge.output_pairs import Divergence, OutputPair, Worst, compare, worst

GateVerdict = Literal["pass", "pass-explained", "undecided", "blocked"]
WORST_FIRST: tuple[GateVerdict, ...] = ("blocked", "undecided", "pass-explained", "pass")
MEASURES = ("prefix_fraction", "edit_distance", "tokens")
MEANING = (
    "A pass is no evidence of a violation on these prompts. It is not a proof that the arm is "
    "lossless: where outputs part, what follows is only measured, and other prompts were not tried."
)


@attrs.frozen(kw_only=True)
class Check:
    """One measure of the seed rule."""

    measure: str
    observed: float
    """The worst over the arm's pairs."""
    control: float
    """The worst over as many control pairs."""
    allowance: float
    """The control's worst and the margin, within the bounds of the measure."""
    held: bool
    loose: bool
    """Held only by an allowance that nothing could have failed."""


@attrs.frozen(kw_only=True)
class Parting:
    """A divergence of the arm, and what explains it."""

    pair: str
    divergence: Divergence
    near_tie: bool | None
    """None where nobody can tell: no log-probabilities, or one side ended."""
    shown_by: str
    """A capture without speculation that took the same turn; empty where none did."""

    @property
    def explained(self) -> bool:
        """Whether it is a near tie, or one the controls show."""
        return bool(self.near_tie) or bool(self.shown_by)

    @property
    def refuted(self) -> bool:
        """Whether it is known to be neither."""
        return self.near_tie is False and not self.shown_by


@attrs.frozen(kw_only=True)
class ArmVerdict:
    """What is ruled on one arm at one concurrency."""

    arm: str
    concurrency: int
    verdict: GateVerdict
    reason: str
    checks: tuple[Check, ...]
    """Of the group of pairs that did worst; empty without a control."""
    pairs: tuple[OutputPair, ...]
    controls: tuple[ControlPairs, ...]
    partings: tuple[Parting, ...]

    @property
    def prompts(self) -> int:
        """Outputs compared, over all pairs."""
        return sum(len(pair.outputs) for pair in self.pairs)

    @property
    def exact(self) -> int:
        """Of them those with equal texts. Shown, never gated."""
        return sum(pair.exact for pair in self.pairs)

    @property
    def unexplained(self) -> tuple[Parting, ...]:
        """Divergences that nothing explains."""
        return tuple(parting for parting in self.partings if not parting.explained)


def rule(
    captures: Sequence[Capture], margins: Margins, near_tie_nats: float
) -> tuple[ArmVerdict, ...]:
    """Rule on every arm at every concurrency that it was captured at with its block's baseline."""
    found = []
    for concurrency in sorted({capture.concurrency for capture in captures}):
        here = [capture for capture in captures if capture.concurrency == concurrency]
        plain = [capture for capture in here if capture.role in ("baseline", "noise_floor")]
        # Of several baselines of a block the first is compared with; the others are controls.
        baselines = {(c.block, c.number): c for c in reversed(plain) if c.role == "baseline"}
        if not baselines:
            continue
        cross, within = tuple(cross_deployment(plain)), within_deployment(plain)
        for arm in dict.fromkeys(c.arm for c in here if c.role == "arm"):
            own = [capture for capture in here if capture.arm == arm]
            pairs = [
                compare(baselines[capture.block, capture.number], capture)
                for capture in own
                if (capture.block, capture.number) in baselines
            ]
            if pairs:
                controls = (within, *own_controls(arm, own))
                shown = [control for control in controls if control.pairs]
                found.append(rule_pairs(pairs, cross, plain, shown, margins, near_tie_nats))
    return tuple(found)


def rule_pairs(
    pairs: Sequence[OutputPair],
    cross: Sequence[OutputPair],
    plain: Sequence[Capture],
    shown: Sequence[ControlPairs],
    margins: Margins,
    near_tie_nats: float,
) -> ArmVerdict:
    """Rule on the pairs of one arm against cross-deployment control pairs.

    `plain` are all captures without speculation: a divergence that one of them shows is explained.
    """
    cross = tuple(pair for pair in cross if pair.whole)
    partings = tuple(_partings(pairs, plain, near_tie_nats))
    groups = [_checks(group, used, margins) for group, used in _as_many(pairs, cross)]
    checks = max(groups, key=_badness, default=())
    verdict, reason = _verdict(pairs, checks, partings, near_tie_nats, controlled=bool(cross))
    first = pairs[0].other
    control = ControlPairs(
        kind="cross-deployment",
        arm=pairs[0].reference.arm,
        pairs=cross[: len(pairs)],
        compared=True,
    )
    return ArmVerdict(
        arm=first.arm,
        concurrency=first.concurrency,
        verdict=verdict,
        reason=reason,
        checks=checks,
        pairs=tuple(pairs),
        controls=(*((control,) if cross else ()), *shown),
        partings=partings,
    )


def seed_rule(
    observed: Worst, control: Worst, margins: Margins, most_tokens: int
) -> tuple[Check, ...]:
    """Give whether each worst stays within the control's worst and the margin.

    An allowance that reaches the bound of its measure (`most_tokens` for the difference in tokens)
    cannot be failed. It is no fault where the margin alone, over a perfect control, would do.
    """
    prefix = max(0.0, control.prefix_fraction - margins.prefix_fraction)
    edit = min(1.0, control.edit_distance + margins.edit_distance)
    tokens = control.tokens + margins.tokens
    return (
        Check(
            measure="prefix_fraction",
            observed=observed.prefix_fraction,
            control=control.prefix_fraction,
            allowance=prefix,
            held=observed.prefix_fraction >= prefix,
            loose=prefix == 0 and observed.prefix_fraction < 1 - margins.prefix_fraction,
        ),
        Check(
            measure="edit_distance",
            observed=observed.edit_distance,
            control=control.edit_distance,
            allowance=edit,
            held=observed.edit_distance <= edit,
            loose=edit == 1 and observed.edit_distance > margins.edit_distance,
        ),
        Check(
            measure="tokens",
            observed=observed.tokens,
            control=control.tokens,
            allowance=tokens,
            held=observed.tokens <= tokens,
            loose=tokens >= most_tokens and observed.tokens > margins.tokens,
        ),
    )


def _verdict(  # noqa: PLR0911 - one for each verdict and reason
    pairs: Sequence[OutputPair],
    checks: Sequence[Check],
    partings: Sequence[Parting],
    near_tie_nats: float,
    *,
    controlled: bool,
) -> tuple[GateVerdict, str]:
    """Give verdict and reason. See docs/decisions/0060-verdicts-of-the-correctness-gate.md."""
    refuted = [parting for parting in partings if parting.refuted]
    unexplained = [parting for parting in partings if not parting.explained]
    failed = [check.measure for check in checks if not check.held]
    loose = [check.measure for check in checks if check.loose]
    near = f"within {near_tie_nats:g} nats of the baseline's best"
    if not controlled:
        return "undecided", (
            "there is no control: no other deployment of the baseline has whole captures"
        )
    if refuted:
        return "blocked", (
            f"{len(refuted)} of {len(partings)} divergences are neither {near} nor shown by a "
            "control"
        )
    if not all(pair.whole for pair in pairs):
        lost = {o.prompt_id for pair in pairs for o in pair.outputs if not o.succeeded}
        return "undecided", f"no output to compare for {', '.join(sorted(lost))}"
    if not failed and not loose:
        return "pass", "its worst outputs stay within the control's worst and the margins"
    broken = (
        f"the seed rule fails on {', '.join(failed)}"
        if failed
        else f"the control is loose on {', '.join(loose)}: nothing could have failed"
    )
    if not unexplained:
        return "pass-explained", (
            f"{broken}, but each of {len(partings)} divergences is {near} or shown by a control"
        )
    if failed:
        return "blocked", (
            f"{broken}, and nothing explains {len(unexplained)} of {len(partings)} divergences"
        )
    return "undecided", (
        f"{broken}, and of {len(unexplained)} of {len(partings)} divergences nobody can tell "
        "whether they are near ties"
    )


def _as_many(
    pairs: Sequence[OutputPair], cross: Sequence[OutputPair]
) -> Iterator[tuple[Sequence[OutputPair], Sequence[OutputPair]]]:
    """Give groups of pairs with as many control pairs each: the worst of more is worse."""
    size = min(len(pairs), len(cross))
    for start in range(0, len(pairs) if size else 0, size or 1):
        group = pairs[start : start + size]
        yield group, cross[: len(group)]


def _checks(
    group: Sequence[OutputPair], used: Sequence[OutputPair], margins: Margins
) -> tuple[Check, ...]:
    counts = [
        output.completion_tokens or 0
        for pair in (*group, *used)
        for capture in (pair.reference, pair.other)
        for output in capture.outputs
    ]
    return seed_rule(worst(group), worst(used), margins, max(counts, default=0))


def _badness(checks: Sequence[Check]) -> tuple[int, int]:
    return sum(not check.held for check in checks), sum(check.loose for check in checks)


def _partings(
    pairs: Sequence[OutputPair], plain: Sequence[Capture], near_tie_nats: float
) -> Iterator[Parting]:
    said = {
        (capture.name, output.prompt_id): (output.token_ids, output.text)
        for capture in plain
        for output in capture.outputs
        if output.status == "ok"
    }
    for pair in pairs:
        others = {output.prompt_id: output for output in pair.other.outputs}
        for divergence in pair.divergences:
            other, shown_by = others[divergence.prompt_id], ""
            for capture in plain:
                ids, text = said.get((capture.name, divergence.prompt_id), (None, None))
                if capture.name != pair.reference.name and (
                    _turns_alike(divergence.token, other.token_ids, ids)
                    if divergence.token is not None
                    else _turns_alike(divergence.character, other.text, text)
                ):
                    shown_by = capture.name
                    break
            yield Parting(
                pair=pair.name,
                divergence=divergence,
                near_tie=divergence.is_near_tie(near_tie_nats),
                shown_by=shown_by,
            )


def _turns_alike(
    place: int, one: Sequence[int] | str | None, other: Sequence[int] | str | None
) -> bool:
    """Tell whether both are the same to `place` and one beyond, or both end there."""
    if one is None or other is None:
        return False
    return one[: place + 1] == other[: place + 1]
