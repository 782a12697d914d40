"""Comparisons and verdicts of captures as lines of text, and as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs

from specbench.judge.correctness import MEANING, ArmVerdict, Check
from specbench.judge.output_pairs import Divergence, OutputPair

SHOWN = 5
"""Divergences that are quoted."""
NAMES = {
    "prefix_fraction": "common prefix / shorter, least",
    "edit_distance": "edit distance / longer, most",
    "tokens": "difference in tokens, most",
}


def pair_lines(pair: OutputPair) -> Iterator[str]:
    """Give a comparison prompt by prompt."""
    yield (
        f"concurrency {pair.reference.concurrency}: {pair.exact} of {len(pair.outputs)} texts are "
        f"equal ({pair.name})"
    )
    width = max(len(output.prompt_id) for output in pair.outputs)
    for output in pair.outputs:
        said = f"  {output.prompt_id:<{width}}  "
        if not output.succeeded:
            yield f"{said}failed"
        elif output.divergence is None:
            yield f"{said}equal"
        else:
            yield (
                f"{said}prefix {output.prefix_characters} ({output.prefix_fraction:.3f})  "
                f"edit distance {output.edit_distance:.3f}  tokens {_tokens(output.tokens)}"
            )
            yield f"  {'':<{width}}  {divergence_text(output.divergence)}"


def divergence_text(found: Divergence) -> str:
    """Give where two outputs part, with the text around it."""
    where = f"character {found.character}" if found.token is None else f"token {found.token}"
    return (
        f"{where} ({nats_text(found)}): {found.before!r} -> {found.reference!r} | {found.other!r}"
    )


def nats_text(found: Divergence) -> str:
    """Give how likely the reference thought the other's token."""
    if found.behind_nats is not None:
        return f"{found.behind_nats:g} nats behind"
    if found.beyond_nats is not None:
        return f"over {found.beyond_nats:g} nats behind"
    return "nats unknown"


def verdict_lines(found: ArmVerdict) -> Iterator[str]:
    """Give a verdict with the numbers that it stands on."""
    yield f"{found.arm} at concurrency {found.concurrency}: {found.verdict.upper()}: {found.reason}"
    yield f"  equal texts: {found.exact} of {found.prompts} (shown, not gated)"
    for control in found.controls:
        count = sum(len(pair.outputs) for pair in control.pairs)
        exact = sum(pair.exact for pair in control.pairs)
        own = "excuses nothing" if control.arm == found.arm else "can only explain"
        use = "compared with" if control.compared else own
        yield f"  {control.kind} control of {control.arm}: {exact} of {count} equal ({use})"
    yield from (f"  {_check_text(check)}" for check in found.checks)
    parted = sorted(found.partings, key=lambda parting: parting.explained)
    for parting in parted[:SHOWN]:
        why = "near tie" if parting.near_tie else f"shown by {parting.shown_by}"
        why = why if parting.explained else "not explained"
        yield f"  {parting.divergence.prompt_id}, {why}: {divergence_text(parting.divergence)}"
    if len(parted) > SHOWN:
        yield f"  and {len(parted) - SHOWN} more divergences"
    yield f"  {MEANING}"


def verdict_facts(found: ArmVerdict) -> dict[str, Any]:
    """Give a verdict as plain values."""
    return {
        "arm": found.arm,
        "concurrency": found.concurrency,
        "verdict": found.verdict,
        "reason": found.reason,
        "exact": found.exact,
        "outputs": found.prompts,
        "checks": [attrs.asdict(check) for check in found.checks],
        "controls": [
            {
                "kind": control.kind,
                "arm": control.arm,
                "compared": control.compared,
                "pairs": len(control.pairs),
                "exact": sum(pair.exact for pair in control.pairs),
                "outputs": sum(len(pair.outputs) for pair in control.pairs),
            }
            for control in found.controls
        ],
        "divergences": [
            {
                **attrs.asdict(parting.divergence),
                "pair": parting.pair,
                "near_tie": parting.near_tie,
                "shown_by": parting.shown_by,
                "explained": parting.explained,
            }
            for parting in found.partings
        ],
        "meaning": MEANING,
    }


def _check_text(check: Check) -> str:
    outcome = "loose" if check.loose else "held" if check.held else "failed"
    return (
        f"{NAMES[check.measure]}: {check.observed:.4g}, control {check.control:.4g}, "
        f"allowed {check.allowance:.4g}: {outcome}"
    )


def _tokens(difference: int | None) -> str:
    return "unknown" if difference is None else f"{difference}"
