"""The command that plays an experiment in virtual time."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specbench.cli.options import installed_methods, make_plan, read_spec, spec_argument

if TYPE_CHECKING:
    from specbench.analysis.detectable import Reach
    from specbench.plan import Plan
    from specbench.simulation import SimulatedCell, Simulation

WIDEST = 200


@click.command()
@spec_argument
@click.option("--preset", help="Model and machine that stand in for the target.")
@click.option(
    "--noise",
    type=click.FloatRange(0, 0.5, min_open=True),
    default=0.02,
    show_default=True,
    help="Assumed standard deviation of equal deployments, as a share of their throughput.",
)
@click.option(
    "--power",
    type=click.FloatRange(0.5, 0.99),
    default=0.8,
    show_default=True,
    help="Chance that a detectable effect is shown.",
)
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def simulate(spec: Path, preset: str | None, noise: float, power: float, *, as_json: bool) -> None:
    """Play SPEC in virtual time: what it may find, could detect, and would take.

    Nothing is started, and every number comes from a cost model: all is marked SIMULATED.
    """
    from specbench.simulation import reach_of
    from specbench.simulation import simulate as play

    installed = installed_methods()
    planned = make_plan(read_spec(spec, installed), installed)
    methods = {name: loaded.method for name, loaded in installed.items()}
    played = play(planned, methods, preset)
    reached = reach_of(planned, noise=noise, power=power)
    if as_json:
        click.echo(json.dumps(_facts(planned, played, reached), indent=1))
    else:
        click.echo("\n".join(_lines(planned, played, reached)))


def _lines(planned: Plan, played: Simulation, reached: Reach) -> Iterator[str]:
    from specbench.units import duration_text

    experiment, expected = planned.read.experiment, played.expected
    yield f"SIMULATED {experiment.name}: {experiment.question}"
    yield f"preset {played.preset.name}: {played.preset.stands_for}"
    yield f"defaults of vLLM {played.shapes}; a cost model made every number below"
    yield from (f"note: {note}" for note in _notes(planned, played))
    for name, why in played.not_played.items():
        yield f"note: arm {name!r} is not played: {why}"
    yield ""
    yield from _table(
        "SIMULATED: one deployment of each arm",
        ["arm", "stratum", "sampling"],
        [
            "load",
            "requests",
            "tokens/s",
            "x baseline",
            "TTFT p50 ms",
            "TPOT p50 ms",
            "acceptance length",
            "tokens/step",
            "preemptions",
        ],
        [
            _cell_row(arm.name, one)
            for arm in played.arms
            for one in sorted(arm.cells, key=lambda one: _place(planned, one))
        ],
    )
    yield ""
    parts = {
        f"{expected.deployments} launches": expected.launches_s,
        "captures": expected.captures_s,
        "warm-up": expected.warm_up_s,
        "measured windows": expected.windows_s,
        "in all": expected.wall_s,
    }
    rows = [[name, duration_text(part_s)] for name, part_s in parts.items()]
    if expected.gpus:
        held = f"{expected.gpus} GPU" + "s" * (expected.gpus > 1)
        rows.append([f"GPU hours of {held}", f"{expected.gpu_hours:.2f}"])
    else:
        rows.append(["GPU hours", "0: the simulated engine needs no GPU"])
    title = "SIMULATED: expected time of all blocks, without settling, audits and writing"
    yield from _table(title, ["part"], ["time"], rows)
    yield ""
    against = "2 baselines" if reached.baselines > 1 else "1 baseline"
    yield from _table(
        f"SIMULATED: smallest gain shown with a chance of {reached.power:.0%}, if equal "
        f"deployments spread by {reached.noise:.1%} (assumed) and a block has {against}",
        ["blocks"],
        ["one comparison", f"first of {reached.comparisons} by Holm", ""],
        [
            [
                f"{one.blocks} (this design)" if one.blocks == reached.blocks else str(one.blocks),
                _gain(one.single),
                _gain(one.holm_first),
                one.note,
            ]
            for one in reached.effects
        ],
    )


def _notes(planned: Plan, played: Simulation) -> list[str]:
    return [*played.notes, *(f"{name} is not set here" for name in planned.read.unset)]


def _place(planned: Plan, one: SimulatedCell) -> tuple[int, int, float]:
    """Give where a cell stands in the order in which people wrote it."""
    samplings = planned.read.experiment.sampling
    strata = planned.read.strata()
    cell = one.cell
    return (
        strata.index(cell.stratum),
        samplings.index(cell.sampling),
        cell.concurrency or cell.arrival_rate or 0,
    )


def _cell_row(arm: str, one: SimulatedCell) -> list[str]:
    cell = one.cell
    return [
        arm,
        cell.stratum,
        cell.sampling.name,
        f"c={cell.concurrency}" if cell.concurrency else f"{cell.arrival_rate:g}/s",
        str(cell.requests),
        _shown(one.output_throughput, ".0f"),
        _shown(one.ratio, ".3f"),
        _shown(one.ttft_p50_s, ".1f", 1000),
        _shown(one.tpot_p50_s, ".2f", 1000),
        _shown(one.acceptance_length, ".2f"),
        _shown(one.tokens_per_step, ".2f"),
        str(one.preemptions),
    ]


def _shown(value: float | None, style: str, scale: float = 1) -> str:
    return "-" if value is None else format(value * scale, style)


def _gain(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio - 1:+.1%}"


def _table(
    title: str, words: Sequence[str], numbers: Sequence[str], rows: Sequence[Sequence[str]]
) -> Iterator[str]:
    """Give a table as lines, its numbers to the right."""
    import io

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for name in words:
        table.add_column(name)
    for name in numbers:
        table.add_column(name, justify="right" if name else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    file = io.StringIO()
    Console(file=file, width=WIDEST, no_color=True).print(table)
    yield title
    yield from (line.rstrip() for line in file.getvalue().splitlines())


def _facts(planned: Plan, played: Simulation, reached: Reach) -> dict[str, Any]:
    """Give all of it as plain values."""
    import attrs

    expected = played.expected
    preset = played.preset
    return {
        "mark": "SIMULATED",
        "experiment": planned.read.experiment.name,
        "preset": {
            name: getattr(preset, name) for name in ("name", "stands_for", "estimate", "gpus")
        },
        "shapes": played.shapes,
        "notes": _notes(planned, played),
        "not_played": dict(played.not_played),
        "arms": [
            {**attrs.asdict(arm), "cells": [_cell_facts(one) for one in arm.cells]}
            for arm in played.arms
        ],
        "expected": {
            **attrs.asdict(expected),
            "wall_s": expected.wall_s,
            "gpu_hours": expected.gpu_hours,
        },
        "detectable": attrs.asdict(reached),
    }


def _cell_facts(one: SimulatedCell) -> dict[str, Any]:
    import attrs

    facts = attrs.asdict(one)
    cell = facts.pop("cell")
    return {**cell, "sampling": one.cell.sampling.name, **facts}
