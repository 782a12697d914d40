"""Asked against effective: did the server run the method that the arm asked for? Pure."""

from __future__ import annotations

from collections.abc import Iterator

from specbench.facts import Audit, Verdict
from specbench.methods import Expected


def judge(audit: Audit, expected: Expected) -> tuple[Verdict, ...]:
    """Rule on resolved method, depth and drafter. A failed verdict rejects the deployment."""
    return tuple(_verdicts(audit, expected))


def in_effect(verdicts: tuple[Verdict, ...]) -> bool:
    """Tell whether the deployment may be measured."""
    return not any(verdict.outcome == "fail" for verdict in verdicts)


def _verdicts(audit: Audit, expected: Expected) -> Iterator[Verdict]:
    wanted = expected.methods or ("none",)
    yield _ruled("method", audit.value("method"), wanted)
    if not expected.methods:
        return
    if expected.longest_draft and expected.depth != "by_batch_size":
        depth = str(expected.longest_draft)
        yield _ruled("num_speculative_tokens", audit.value("num_speculative_tokens"), (depth,))
    if expected.drafter is not None:
        yield _ruled("drafter", audit.value("drafter"), (expected.drafter,))


def _ruled(fact: str, observed: str | None, wanted: tuple[str, ...]) -> Verdict:
    if observed is None:
        return Verdict(
            gate=f"in_effect.{fact}",
            outcome="undecided",
            observed="unknown",
            required=" or ".join(wanted),
            advice="neither the log nor the server's configuration states it",
        )
    matches = observed in wanted
    return Verdict(
        gate=f"in_effect.{fact}",
        outcome="pass" if matches else "fail",
        observed=observed,
        required=" or ".join(wanted),
        advice="" if matches else "the server runs something else than the arm asked for",
    )
