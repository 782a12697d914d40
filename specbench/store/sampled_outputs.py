"""Outputs of sampled cells against the baseline's, by distribution: never by equality.

Two deployments of one configuration may draw the same random numbers: vLLM seeds each launch alike
(vllm/config/model.py:ModelConfig.seed, 0), and a sampling's own seed goes to every arm. Outputs of
one request in two deployments are then no two draws. So the baseline's outputs are taken from every
other pass over the prompts, and those of arm and control from the passes between.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import attrs

import specbench
from specbench.analysis.distributions import (
    PERMUTATIONS,
    RESPECTS,
    Outputs,
    compare,
    least_p_value,
)
from specbench.analysis.holm import holm
from specbench.store.comparisons import Comparison, LoadPoint, load_point
from specbench.store.judged_run import JudgedCell, JudgedRun

Row = dict[str, Any]
Pass = Literal["even", "odd"]
Cells = Mapping[int, JudgedCell]
"""The cells of one arm at one load point, by block."""
ALPHA = 0.05
"""Error rate of all comparisons of a run together."""
MOST_PERMUTATIONS = 9_999


@attrs.frozen(kw_only=True)
class Sides:
    """Three sets of outputs of one load point, by block and prompt; or why there are none."""

    arm: Outputs = attrs.field(factory=dict)
    control: Outputs = attrs.field(factory=dict)
    baseline: Outputs = attrs.field(factory=dict)
    controlled_by: str = ""
    blocks: tuple[int, ...] = ()
    missing: str = ""

    @property
    def counts(self) -> list[int]:
        """Outputs of each prompt and block on a side."""
        return [len(outputs) for outputs in self.baseline.values()]


def sampled_rows(run: JudgedRun, comparison: Comparison) -> list[Row]:
    """Give the distances of every arm's sampled outputs from the baseline's, a row a respect."""
    gathered = list(_gathered(run, comparison))
    tests = sum(1 if sides.missing else len(RESPECTS) for _, _, sides in gathered)
    permutations = min(MOST_PERMUTATIONS, max(PERMUTATIONS, round(2 * tests / ALPHA)))
    rows = [
        row for arm, point, sides in gathered for row in _rows(run, arm, point, sides, permutations)
    ]
    for row, adjusted in zip(rows, holm([row["p_value"] for row in rows]), strict=True):
        if adjusted is not None:
            row.update(p_adjusted=adjusted, **_ruling(adjusted, row["least_p_value"] * tests))
    return rows


def _ruling(adjusted: float, least: float) -> Row:
    if adjusted <= ALPHA:
        return {"outcome": "differs"}
    if least > ALPHA:
        return {"reason": "so few outputs cannot show a difference"}
    return {"outcome": "none shown"}


def _gathered(run: JudgedRun, comparison: Comparison) -> Iterator[tuple[str, LoadPoint, Sides]]:
    sampled = {s["name"] for s in run.experiment["sampling"] if s["temperature"] > 0}
    cells: dict[LoadPoint, dict[str, dict[int, JudgedCell]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    roles = {item.arm["name"]: comparison.role(item) for item in comparison.deployments}
    for block, arm, cell in _usable(comparison):
        if cell.facts["sampling"] in sampled:
            cells[load_point(cell)][arm][block] = cell
    for point, by_arm in cells.items():
        repeats = [found for name, found in by_arm.items() if roles[name] == "noise_floor"]
        for arm in sorted(name for name in by_arm if roles[name] == "arm"):
            repeat = repeats[0] if repeats else {}
            yield arm, point, _sides(by_arm[arm], by_arm.get(comparison.denominator, {}), repeat)


def _usable(comparison: Comparison) -> Iterator[tuple[int, str, JudgedCell]]:
    """Give the cells that no ruling keeps out of effects."""
    barred = comparison.barred()
    for item in comparison.deployments:
        name = item.arm["name"]
        failed = any(verdict.outcome == "fail" for verdict in item.verdicts)
        if failed or (item.block, name) in barred or item.same_process_as is not None:
            continue
        for cell in item.cells:
            if not cell.judged.rejected:
                yield item.block, name, cell


def _sides(arm: Cells, baseline: Cells, repeat: Cells) -> Sides:
    blocks = [block for block in sorted(arm) if block in baseline]
    if not blocks:
        return Sides(missing="no block has this cell of both the arm and the baseline")
    controls: dict[int, JudgedCell] = {}
    kinds = set()
    for block in blocks:
        others = [other for other in sorted(baseline) if other != block]
        if block in repeat:
            controls[block] = repeat[block]
            kinds.add("repeat of the baseline")
        elif others:
            controls[block] = baseline[min(others, key=lambda other: (other < block, other))]
            kinds.add("baseline of another block")
    if not controls:
        return Sides(missing="no control: design.noise_floor or a second block gives one")
    return _matched(arm, baseline, controls, controlled_by=" or ".join(sorted(kinds)))


def _matched(arm: Cells, baseline: Cells, controls: Cells, *, controlled_by: str) -> Sides:
    """Give as many outputs of each prompt on every side."""
    chosen: tuple[dict[str, Sequence[Sequence[int]]], ...] = ({}, {}, {})
    for block, control in controls.items():
        found = (_draws(arm[block], "odd"), _draws(control, "odd"), _draws(baseline[block], "even"))
        for prompt in sorted(set.intersection(*map(set, found))):
            count = min(len(draws[prompt]) for draws in found)
            for side, draws in zip(chosen, found, strict=True):
                side[f"{block}/{prompt}"] = draws[prompt][:count]
    if not chosen[0]:
        passes = {row.pass_index for cell in controls.values() for row in cell.rows}
        once = "the prompts were sent once: enough requests for two passes or more give outputs"
        return Sides(missing=once if passes == {0} else "no prompt has token ids on every side")
    return Sides(
        arm=chosen[0],
        control=chosen[1],
        baseline=chosen[2],
        controlled_by=controlled_by,
        blocks=tuple(controls),
    )


def _draws(cell: JudgedCell, passes: Pass) -> dict[str, list[Sequence[int]]]:
    """Give the token ids of a cell's successes by prompt, of every other pass.

    Of a conversation the first turn alone: later ones follow answers that differ.
    """
    token_ids = cell.folder.token_ids()
    found: dict[str, list[Sequence[int]]] = defaultdict(list)
    for row in sorted(cell.rows, key=lambda row: row.pass_index):
        if row.status != "ok" or row.turn or row.pass_index % 2 != (passes == "odd"):
            continue
        if (generated := token_ids.get(row.request_id)) is not None:
            found[row.prompt_id].append(generated)
    return found


def _rows(
    run: JudgedRun, arm: str, point: LoadPoint, sides: Sides, permutations: int
) -> Iterator[Row]:
    place = dict(zip(("stratum", "sampling", "concurrency", "arrival_rate"), point, strict=True))
    shared = {
        "run_id": run.run_id,
        "arm": arm,
        **place,
        "control": sides.controlled_by,
        "blocks": sides.blocks,
        "outputs": sum(sides.counts),
        "outcome": "undecided",
        "reason": sides.missing,
        "p_value": None,
        "judged_by": specbench.__version__,
    }
    if sides.missing:
        yield shared
        return
    for found in compare(sides.arm, sides.control, sides.baseline, permutations=permutations):
        yield {
            **shared,
            "respect": found.respect,
            "arm_distance": found.arm,
            "control_distance": found.control,
            "p_value": found.p_value,
            "least_p_value": least_p_value(sides.counts, permutations),
        }
