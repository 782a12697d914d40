"""Captures of a run to the verdicts of the correctness gate, and these to rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import cattrs

import specbench
from specbench.capture_facts import Capture
from specbench.capture_files import read_captures
from specbench.experiment.model import Correctness
from specbench.explanations import explanation
from specbench.judge.correctness import WORST_FIRST, ArmVerdict, rule
from specbench.judge.output_pairs import worst
from specbench.store.judged_run import JudgedDeployment, JudgedRun

Row = dict[str, Any]

OUTCOMES = {"pass": "pass", "pass-explained": "pass", "blocked": "fail", "undecided": "undecided"}
"""The verdict among those of the other gates."""


def correctness_verdicts(
    run: JudgedRun, deployments: Sequence[JudgedDeployment]
) -> tuple[ArmVerdict, ...]:
    """Give the verdict on every arm at every concurrency; none where nothing was captured.

    Raises:
        StoreError: A capture cannot be read.
    """
    asked = run.experiment["correctness"]
    if asked is None:
        return ()
    rules = cattrs.structure(asked, Correctness)
    return rule(tuple(_captures(deployments)), rules.margins, rules.near_tie_nats)


def blocked_arms(verdicts: Sequence[ArmVerdict]) -> Mapping[str, str]:
    """Give why each arm is blocked, of those that are at any concurrency."""
    found: dict[str, list[str]] = defaultdict(list)
    for ruled in verdicts:
        if ruled.verdict == "blocked":
            found[ruled.arm].append(f"at concurrency {ruled.concurrency}, {ruled.reason}")
    return {arm: "; ".join(reasons) for arm, reasons in found.items()}


def correctness_rows(run: JudgedRun, verdicts: Sequence[ArmVerdict]) -> Iterator[Row]:
    """Give a row an arm and concurrency: the verdict and what it stands on."""
    for found in verdicts:
        compared = [pair for c in found.controls if c.compared for pair in c.pairs]
        row = {
            **_of(run, found),
            "verdict": found.verdict,
            "reason": found.reason,
            "explanation": explanation(run.folder, found.arm, found.concurrency) or None,
            "pairs": len(found.pairs),
            "outputs": found.prompts,
            "exact": found.exact,
            "control_pairs": len(compared),
            "control_outputs": sum(len(pair.outputs) for pair in compared),
            "control_exact": sum(pair.exact for pair in compared),
            "divergences": len(found.partings),
            "near_ties": sum(parting.near_tie is True for parting in found.partings),
            "unexplained": len(found.unexplained),
            "judged_by": specbench.__version__,
        }
        for check in found.checks:
            row[check.measure] = check.observed
            row[f"{check.measure}_control"] = check.control
            row[f"{check.measure}_allowance"] = check.allowance
        yield row


def control_rows(run: JudgedRun, verdicts: Sequence[ArmVerdict]) -> Iterator[Row]:
    """Give a row for each kind of control beside a verdict."""
    for found in verdicts:
        for control in found.controls:
            far = worst(control.pairs)
            yield {
                **_of(run, found),
                "kind": control.kind,
                "control_arm": control.arm,
                "compared": control.compared,
                "pairs": len(control.pairs),
                "outputs": sum(len(pair.outputs) for pair in control.pairs),
                "exact": sum(pair.exact for pair in control.pairs),
                **attrs.asdict(far),
            }


def divergence_rows(run: JudgedRun, verdicts: Sequence[ArmVerdict]) -> Iterator[Row]:
    """Give a row for each output that parts from the baseline's."""
    for found in verdicts:
        for parting in found.partings:
            yield {
                **_of(run, found),
                "pair": parting.pair,
                "near_tie": parting.near_tie,
                "shown_by": parting.shown_by or None,
                "explained": parting.explained,
                **attrs.asdict(parting.divergence),
            }


def gate_rows(
    deployments: Sequence[JudgedDeployment], verdicts: Sequence[ArmVerdict]
) -> Iterator[Row]:
    """Give each verdict as one of the gate `correctness`, on the arm's first captured server."""
    for found in verdicts:
        first = found.pairs[0].other.deployment
        owner = next(item for item in deployments if _label(item) == first)
        yield {
            "deployment_id": owner.deployment_id,
            "cell_id": None,
            "gate": "correctness",
            "outcome": OUTCOMES[found.verdict],
            "observed": f"{found.verdict} at concurrency {found.concurrency}: {found.reason}",
            "required": "no divergence that neither a near tie nor a control explains",
            "advice": "see the divergences; an explanation can be recorded with "
            "`specbench correctness explain`"
            if found.verdict == "blocked"
            else "",
            "judged_by": specbench.__version__,
        }


def arm_rows(
    run: JudgedRun, deployments: Sequence[JudgedDeployment], verdicts: Sequence[ArmVerdict]
) -> Iterator[Row]:
    """Give each arm's worst verdict, and why nothing may be claimed of it."""
    for name in dict.fromkeys(item.arm["name"] for item in deployments):
        own = [item for item in deployments if item.arm["name"] == name]
        ruled = [found for found in verdicts if found.arm == name]
        said = [explanation(run.folder, name, found.concurrency) for found in ruled]
        caveats = _caveats(own)
        worst_verdict = next(
            (word for word in WORST_FIRST if any(found.verdict == word for found in ruled)),
            "not captured" if own[0].arm["role"] == "arm" else "reference",
        )
        blocked = ["blocked by the correctness gate"] if worst_verdict == "blocked" else []
        yield {
            "run_id": run.run_id,
            "arm": name,
            "correctness": worst_verdict,
            "explanation": "; ".join(dict.fromkeys(filter(None, said))) or None,
            "caveats": caveats,
            "barred": "; ".join([*blocked, *caveats]),
        }


def _caveats(own: Sequence[JudgedDeployment]) -> list[str]:
    """Give what a method tells of itself, and what a server tells that nobody declared."""
    declared = list(own[0].arm["caveats"])
    stated = {item.audit.value("rejection_sample_method") for item in own if item.audit is not None}
    if "synthetic" in stated and not declared:
        return ["the server accepts tokens at random (rejection_sample_method synthetic)"]
    return declared


def _captures(deployments: Sequence[JudgedDeployment]) -> Iterator[Capture]:
    """Give the captures of each deployment's latest attempt that has any."""
    latest = {item.attempt.deployment: item for item in deployments if _files(item)}
    for item in latest.values():
        for path in _files(item):
            about = Capture(
                arm=item.arm["name"],
                role=item.arm["role"],
                deployment=_label(item),
                block=item.block,
                number=int(path.stem.removeprefix("capture-")),
            )
            yield from read_captures(path, about)


def _files(item: JudgedDeployment) -> list[Path]:
    return sorted(item.attempt.path.glob("capture-*.jsonl"))


def _label(item: JudgedDeployment) -> str:
    """Give what was launched: one process is one deployment, however often it is measured."""
    return item.same_process_as or item.attempt.path.name


def _of(run: JudgedRun, found: ArmVerdict) -> Row:
    return {"run_id": run.run_id, "arm": found.arm, "concurrency": found.concurrency}
