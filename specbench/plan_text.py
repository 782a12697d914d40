"""A plan as text for people."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from specbench.plan import Plan, PlannedArm, estimate
from specbench.units import duration_text

DERIVED = {
    "noise_floor": " (the baseline again: noise floor)",
    "equalised": " (the baseline with settings of an arm: equalised)",
}
UNSERVABLE = "Unservable: launched only with --launch-unservable"


def plan_text(planned: Plan) -> str:
    """Give commands, order, cells and time of a plan."""
    return "\n".join(_lines(planned))


def unservable_lines(planned: Plan) -> Iterator[str]:
    """Give a line for each arm that the engine's version is known to refuse, with the source."""
    for arm in planned.arms:
        if arm.unservable:
            yield f"arm {arm.name!r} is unservable: {'; '.join(arm.unservable)}"


def _lines(planned: Plan) -> Iterator[str]:
    experiment = planned.read.experiment
    yield f"{experiment.name}: {experiment.question}"
    yield from (f"note: {note}" for note in planned.notes)
    yield from (f"note: {name} is not set here" for name in planned.read.unset)
    yield ""
    yield "Commands ({port} and {scratch} are filled in at launch)"
    for arm in planned.launched():
        yield from _command_lines(arm)
    yield ""
    unservable = [f"  {line}" for line in unservable_lines(planned)]
    if unservable:
        asked = any(arm.unservable for arm in planned.launched())
        yield "Unservable, launched as asked" if asked else UNSERVABLE
        yield from [*unservable, ""]
    yield "Order"
    for block in sorted({deployment.block for deployment in planned.deployments}):
        names = [d.arm.name for d in planned.deployments if d.block == block]
        cells = next(d.cells for d in planned.deployments if d.block == block)
        yield f"  block {block}: {', '.join(names)}"
        yield f"    cells: {', '.join(f'{cell.name} ({cell.requests})' for cell in cells)}"
    yield ""
    launches, cells_count = len(planned.deployments), sum(len(d.cells) for d in planned.deployments)
    guess = estimate(planned)
    yield f"{launches} launches, {cells_count} cells, about {duration_text(guess.seconds)}"
    yield f"(assuming {guess.assumption})"


def _command_lines(arm: PlannedArm) -> Iterator[str]:
    yield f"  {arm.name}{DERIVED.get(arm.role, '')}"
    if arm.attached is not None:
        proxy = arm.attached.proxy_env
        through = f" through the proxy that {proxy} names" if proxy else ""
        yield f"    attached to {arm.attached.base_url}{through}: nothing is started"
        return
    environment = " ".join(
        f"{name}={shlex.quote(value)}" for name, value in arm.command.environment.items()
    )
    yield f"    {environment} {shlex.join(arm.command.argv)}".replace("     ", "    ")
    if arm.twin:
        yield f"    compared with the baseline, and equalised with {arm.twin}"
    yield from (f"    caveat: {caveat}" for caveat in arm.caveats)
