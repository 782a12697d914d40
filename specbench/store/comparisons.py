"""What is compared with what in a run, and what may not be read without being told beside it.

The shipped comparison pairs every arm with the baseline as it is served. The equalised one pairs an
arm with the twin of the baseline that was launched with the arm's own settings.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import attrs
import cattrs

from specbench.facts import Audit, Difference
from specbench.judge.cell_confounds import CellServing, cell_differences
from specbench.judge.confounds import differences, scoped
from specbench.methods import Confound
from specbench.store.judged_run import JudgedCell, JudgedDeployment

Row = dict[str, Any]
LoadPoint = tuple[str, str, int | None, float | None]
"""Stratum, sampling, concurrency of a closed load and rate of an open one."""


@attrs.frozen(kw_only=True)
class Told:
    """A difference that stands beside the effects of an arm."""

    block: int
    arm: str
    load_point: LoadPoint | None
    """That of its cell; None when the whole arm differs."""
    difference: Difference


@attrs.frozen(kw_only=True)
class Comparison:
    """Arms and the one baseline, or twin of it, that they are compared with."""

    kind: Literal["shipped", "equalised"]
    denominator: str
    """Name of the baseline, or of its twin."""
    deployments: tuple[JudgedDeployment, ...]
    told: tuple[Told, ...]

    def role(self, item: JudgedDeployment) -> str:
        """Give the role that a deployment plays here."""
        return "baseline" if item.arm["name"] == self.denominator else str(item.arm["role"])

    def barred(self) -> Mapping[tuple[int, str], str]:
        """Give the controlled property that differs, by block and arm."""
        return {
            (told.block, told.arm): told.difference.fact
            for told in self.told
            if told.difference.controlled
        }

    def confounds(self, arm: str, points: Sequence[LoadPoint], blocks: Sequence[int]) -> list[str]:
        """Give what an effect over load points may not be read without, each sentence once."""
        found = [
            told.difference.sentence
            for told in self.told
            if told.arm == arm and told.block in blocks and told.load_point in (None, *points)
        ]
        return list(dict.fromkeys(found))


def comparisons(deployments: Sequence[JudgedDeployment]) -> Iterator[Comparison]:
    """Give the shipped comparison, and the equalised one of every twin."""
    roles = {item.arm["name"]: item.arm["role"] for item in deployments}
    for name, role in roles.items():
        if role == "baseline":
            yield _comparison("shipped", name, deployments)
    for name, role in roles.items():
        if role == "equalised":
            chosen = [
                item for item in deployments if name in (item.arm["name"], item.arm.get("twin"))
            ]
            yield _comparison("equalised", name, chosen)


def difference_rows(run_id: str, comparison: Comparison) -> Iterator[Row]:
    """Give what differs between arms."""
    for told in comparison.told:
        if told.load_point is None:
            yield _row(run_id, comparison, told)


def cell_difference_rows(run_id: str, comparison: Comparison) -> Iterator[Row]:
    """Give what differs between cells."""
    for told in comparison.told:
        if told.load_point is not None:
            names = ("stratum", "sampling", "concurrency", "arrival_rate")
            place = zip(names, told.load_point, strict=True)
            yield {**_row(run_id, comparison, told), **dict(place)}


def _row(run_id: str, comparison: Comparison, told: Told) -> Row:
    difference = attrs.asdict(told.difference)
    return {
        "run_id": run_id,
        "comparison": comparison.kind,
        "denominator": comparison.denominator,
        "block": told.block,
        "arm_value": difference.pop("arm"),
        **difference,
        "arm": told.arm,
    }


def _comparison(
    kind: Literal["shipped", "equalised"], name: str, deployments: Sequence[JudgedDeployment]
) -> Comparison:
    return Comparison(
        kind=kind,
        denominator=name,
        deployments=tuple(deployments),
        told=(*_told_of_arms(name, deployments), *_told_of_cells(name, deployments)),
    )


def _told_of_arms(name: str, deployments: Sequence[JudgedDeployment]) -> Iterator[Told]:
    for block, items in _by_block(deployments).items():
        base = _audit_of_baseline(name, items)
        if base is None:
            continue
        found: dict[str, tuple[Difference, ...]] = {}
        plain: dict[str, tuple[Difference, ...]] = {}
        for item in items:
            if item.arm["name"] == name or item.audit is None:
                continue
            named = cattrs.structure(item.arm["confounds"], tuple[Confound, ...])
            kept = found if item.arm["role"] == "arm" else plain
            kept[item.arm["name"]] = differences(base, item.audit, named)
        for arm, differing in {**scoped(found), **plain}.items():
            for difference in differing:
                yield Told(block=block, arm=arm, load_point=None, difference=difference)


def _told_of_cells(name: str, deployments: Sequence[JudgedDeployment]) -> Iterator[Told]:
    for block, items in _by_block(deployments).items():
        base = {
            load_point(cell): serving(item, cell)
            for item in items
            if item.arm["name"] == name
            for cell in item.cells
        }
        for item in items:
            if item.arm["name"] == name:
                continue
            for cell in item.cells:
                point = load_point(cell)
                if point in base:
                    for difference in cell_differences(base[point], serving(item, cell)):
                        arm = item.arm["name"]
                        yield Told(block=block, arm=arm, load_point=point, difference=difference)


def load_point(cell: JudgedCell) -> LoadPoint:
    """Give the load point of a cell."""
    facts = cell.facts
    return facts["stratum"], facts["sampling"], facts["concurrency"], facts.get("arrival_rate")


def serving(item: JudgedDeployment, cell: JudgedCell) -> CellServing:
    """Give how a server served one window."""
    concurrency = cell.facts["concurrency"]
    held = sorted(
        row.prompt_tokens + row.completion_tokens
        for row in cell.rows
        if row.prompt_tokens is not None and row.completion_tokens is not None
    )
    return CellServing(
        audit=item.audit or Audit(facts=()),
        longest_draft=item.arm["expected"]["longest_draft"],
        concurrency=concurrency,
        running=cell.sampled.running_mean or cell.judged.summary.achieved_concurrency,
        delta=cell.judged.delta,
        kv_usage=cell.sampled.kv_usage_max,
        held_tokens=sum(held[-concurrency:]) if held and concurrency else None,
        prompts=frozenset(row.prompt_id for row in cell.rows),
    )


def _audit_of_baseline(name: str, items: Sequence[JudgedDeployment]) -> Audit | None:
    """Give the audit of the baseline, of its repeat where the baseline itself has none."""
    plain = [item for item in items if item.arm["name"] == name and item.audit]
    plain += [item for item in items if item.arm["role"] == "noise_floor" and item.audit]
    return plain[0].audit if plain else None


def _by_block(deployments: Sequence[JudgedDeployment]) -> Mapping[int, list[JudgedDeployment]]:
    blocks: dict[int, list[JudgedDeployment]] = defaultdict(list)
    for item in deployments:
        blocks[item.block].append(item)
    return blocks
