"""The walk, nothing else: for each deployment launch, audit, capture, measure its cells, stop.

Every cell is on disk before the next begins. A launch that fails is evidence and the walk goes on.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import attrs
from anyio import to_thread

from specbench.artifacts import AttemptFolder, RunFolder, Status
from specbench.errors import DeploymentError
from specbench.experiment.identity import resolve
from specbench.facts import Audit, Fact
from specbench.failing import failure
from specbench.journal import Journal, Listener
from specbench.judge import effective
from specbench.launchers.accelerators import require_free_accelerators
from specbench.launchers.attach import attached, attached_secrets
from specbench.launchers.local import environment, serving
from specbench.launchers.readiness import until_ready
from specbench.launchers.server import Server
from specbench.measuring import Measuring, OnRow
from specbench.observe import metrics, provenance
from specbench.observe.checkpoints import checkpoint, require_equal
from specbench.observe.logs import audit_lines, read_lines
from specbench.pace import pace
from specbench.plan import Plan, PlannedArm, PlannedDeployment
from specbench.planned_cell import PlannedCell
from specbench.redaction import Redaction, redaction, scrubbed
from specbench.stopping import Stopping
from specbench.whole_files import json_text, read_json, write_text
from specbench.workloads.read import workload_lines


def secrets_of(planned: Plan) -> Redaction:
    """Give the secret values that any server of a plan is started or reached with."""
    commands = [arm.command for arm in planned.arms]
    reached = [attached_secrets(arm.attached) for arm in planned.arms if arm.attached]
    environments = [environment(command) for command in commands]
    return redaction(environments, [c.argv for c in commands], chain.from_iterable(reached))


def prepare(planned: Plan, folder: RunFolder) -> None:
    """Write what is known before anything is launched.

    Document and provenance of the run's first day stay; the plan is that of today, because the
    number of blocks may have grown.
    """
    experiment = planned.read.experiment
    if not (folder.path / "experiment.yaml").exists():
        write_text(folder.path / "experiment.yaml", folder.redaction.text(planned.read.text))
        origin = json_text(
            {
                "machine": provenance.machine(),
                "software": provenance.software(),
                "engine_version": experiment.target.version,
                "engine_libraries": provenance.packages(
                    experiment.launcher.python,
                    provenance.ENGINE_LIBRARIES,
                    experiment.target.env.get("PYTHONPATH", ""),
                ),
                "target": checkpoint(experiment.target.model),
                "assets": {path: checkpoint(path) for arm in planned.arms for path in arm.assets},
                "workloads": resolve(planned.read)["workloads"],
            },
        )
        write_text(folder.path / "provenance.json", folder.redaction.text(origin))
        for workload in planned.read.workloads:
            if workload.generated:
                text = "".join(workload_lines(workload.prompts))
                write_text(folder.path / workload.path.name, text)
    write_text(folder.path / "plan.json", folder.redaction.text(json_text(plan_facts(planned))))


def plan_facts(planned: Plan) -> dict[str, Any]:
    """Give the plan as plain values, with everything that judging needs and no secret."""
    facts: dict[str, Any] = scrubbed(
        {
            "experiment": resolve(planned.read),
            "spec": str(planned.read.path.absolute()),
            "rehearsal": planned.rehearsal,
            "simulated": planned.engine.simulated,
            "arms": {arm.name: attrs.asdict(arm) for arm in planned.arms},
            "deployments": [
                {
                    "name": deployment.name,
                    "block": deployment.block,
                    "place": deployment.place,
                    "arm": deployment.arm.name,
                    "cells": [cell.name for cell in deployment.cells],
                }
                for deployment in planned.deployments
            ],
            "prompts": {
                stratum: len(planned.read.prompts(stratum)) for stratum in planned.read.strata()
            },
            "sources": {
                stratum: sorted({prompt.source for prompt in planned.read.prompts(stratum)})
                for stratum in planned.read.strata()
            },
            "licences": {
                stratum: sorted({prompt.licence for prompt in planned.read.prompts(stratum)})
                for stratum in planned.read.strata()
            },
            "notes": planned.notes,
        }
    )
    return facts


def spoiled_blocks(folder: RunFolder) -> frozenset[int]:
    """Give the blocks whose baseline failed: they give no effect, and are not gone on with."""
    path = folder.path / "plan.json"
    if not path.exists():
        return frozenset()
    closed = [attempt.closing() or {} for attempt in folder.attempts()]
    if not any(closing.get("status") == "complete" for closing in closed):
        # Nothing was served yet, so there is nothing that another attempt could be far from.
        return frozenset()
    planned = read_json(path)
    roles = {name: arm["role"] for name, arm in planned["arms"].items()}
    return frozenset(
        deployment["block"]
        for deployment in planned["deployments"]
        if roles[deployment["arm"]] == "baseline"
        and (closings := [a.closing() for a in folder.attempts(deployment["name"])])
        and all((closing or {}).get("status") in ("failed", "rejected") for closing in closings)
    )


def left_to_do(
    planned: Plan, folder: RunFolder, spoiled: frozenset[int]
) -> tuple[PlannedDeployment, ...]:
    """Give the deployments that lack a cell, or that no attempt closed as complete."""
    held: dict[str, set[str]] = defaultdict(set)
    complete = set()
    for attempt in folder.attempts():
        if (attempt.closing() or {}).get("status") == "complete":
            complete.add(attempt.deployment)
        cells = attempt.cells().items()
        held[attempt.deployment] |= {n for n, cell in cells if not cell.facts()["aborted"]}
    return tuple(
        deployment
        for deployment in planned.deployments
        if deployment.block not in spoiled
        and (
            deployment.name not in complete
            or not {cell.name for cell in deployment.cells} <= held[deployment.name]
        )
    )


@attrs.frozen(kw_only=True)
class Ending:
    """How a walk ended."""

    done: bool
    """Whether everything planned is done."""
    signal: int | None = None
    """The signal that stopped it."""


async def walk(
    planned: Plan,
    folder: RunFolder,
    listen: Listener,
    on_row: OnRow,
    stopping: Stopping,
    spoiled: frozenset[int],
    until_monotonic_s: float | None,
) -> Ending:
    """Do what of the plan is not done yet.

    `spoiled` blocks are left as they are. With `until_monotonic_s` nothing is started that cannot
    be finished by then.
    """
    steps = _Walk(planned, folder, listen, on_row, stopping, until_monotonic_s)
    for name in folder.close_interrupted():
        steps.resumed(name)
    done = False
    with stopping.listening():
        done = await steps.all(left_to_do(planned, folder, spoiled))
    return Ending(done=done, signal=stopping.signal)


class _Walk:
    """The walk's context: where evidence goes and who is told."""

    def __init__(
        self,
        planned: Plan,
        folder: RunFolder,
        listen: Listener,
        on_row: OnRow,
        stopping: Stopping,
        until_monotonic_s: float | None,
    ) -> None:
        self._plan = planned
        self._folder = folder
        self._journal = Journal(folder, listen)
        self._measuring = Measuring(planned, folder.path.name, self._journal, on_row, stopping)
        self._stopping = stopping
        self._until_monotonic_s = until_monotonic_s
        self._deployed = False

    def resumed(self, attempt: str) -> None:
        """Note that an attempt of an earlier day was closed."""
        self._journal.note("resume", attempt, {"closed": "interrupted"})

    async def all(self, deployments: Iterable[PlannedDeployment]) -> bool:
        """Deploy one after the other, and tell whether there was time for all."""
        for deployment in deployments:
            if not await self.deploy(deployment):
                return False
        return True

    async def deploy(self, deployment: PlannedDeployment) -> bool:
        """Launch one arm and measure the cells that no earlier attempt measured.

        False tells that there was not time enough for it.
        """
        earlier = self._folder.attempts(deployment.name)
        done = {
            name
            for attempt in earlier
            for name, cell in attempt.cells().items()
            if not cell.facts()["aborted"]
        }
        cells = [cell for cell in deployment.cells if cell.name not in done]
        if not cells:
            self._folder.open_attempt(deployment.name).close(
                "complete", reason="every cell was measured by earlier attempts"
            )
            return True
        known, names = pace(self._folder.journal()), [cell.name for cell in cells]
        worth = known.is_worth_a_launch(names, self._left_s(), first=not self._deployed)
        if self._stopping.asked or not worth:
            return False
        self._deployed = True
        attempt = self._folder.open_attempt(deployment.name)
        status: Status = "failed"
        facts: dict[str, Any] = {"started_unix_s": time.time()}
        try:
            await to_thread.run_sync(self._require_checkpoints, deployment.arm, attempt)
            async with self._launched(deployment, attempt, facts) as server:
                status = await self._serve(deployment, attempt, server, cells, facts)
        except DeploymentError as error:
            facts |= failure(self._plan.engine, attempt.log, error, facts.get("exit_code"))
        facts["warnings"] = self._audited(attempt, ()).warnings
        attempt.close(status, ended_unix_s=time.time(), **facts)
        reason = {"status": status, "reason": facts.get("reason", "")}
        self._journal.note("deployment", attempt.path.name, reason)
        return status != "interrupted"

    def _has_time_for(self, duration_s: float) -> bool:
        return not self._stopping.asked and duration_s <= self._left_s()

    def _left_s(self) -> float:
        until = self._until_monotonic_s
        return math.inf if until is None else until - time.monotonic()

    @asynccontextmanager
    async def _launched(
        self, deployment: PlannedDeployment, attempt: AttemptFolder, facts: dict[str, Any]
    ) -> AsyncIterator[Server]:
        """Launch a server for the length of the block, and note the code it ended with."""
        async with AsyncExitStack() as stack:
            with self._journal.phase("launch", attempt.path.name):
                server = await stack.enter_async_context(self._server(deployment.arm, attempt.log))
            try:
                yield server
            finally:
                with self._journal.phase("stop", attempt.path.name):
                    await stack.aclose()
                facts["exit_code"] = server.exit_code

    def _require_checkpoints(self, arm: PlannedArm, attempt: AttemptFolder) -> None:
        """Keep the digests of what is about to be served, and refuse what has changed."""
        if arm.attached is None:
            model = self._plan.read.experiment.target.model
            found = [checkpoint(path) for path in (model, *arm.assets)]
            attempt.write_json("checkpoints.json", found)
            require_equal(found, read_json(self._folder.path / "provenance.json"))

    def _server(self, arm: PlannedArm, log: Path) -> AbstractAsyncContextManager[Server]:
        engine = self._plan.engine
        if arm.attached is not None:
            return attached(arm.attached, log, engine.metrics_path)
        if not engine.simulated:
            require_free_accelerators(arm.command)
        return serving(arm.command, log, model=engine.served_name, metrics_path=engine.metrics_path)

    async def _serve(
        self,
        deployment: PlannedDeployment,
        attempt: AttemptFolder,
        server: Server,
        cells: list[PlannedCell],
        facts: dict[str, Any],
    ) -> Status:
        engine = self._plan.engine
        launcher = self._plan.read.experiment.launcher
        attempt.write_json("launch.json", _launch_facts(server))
        with self._journal.phase("ready", attempt.path.name):
            facts["ready_s"] = await until_ready(
                server,
                path=engine.chat_path,
                timeout_s=launcher.ready_timeout_s,
            )
        names = engine.counters()
        facts["process_start_unix_s"] = await metrics.process_start(
            server.metrics_url, names, server.proxy
        )
        with self._journal.phase("audit", attempt.path.name):
            verdicts = await self._audit(deployment, attempt, server)
        if not effective.in_effect(verdicts):
            wrong = [v for v in verdicts if v.outcome == "fail"]
            facts["reason"] = "not in effect: " + "; ".join(
                f"{v.gate} is {v.observed}, asked {v.required}" for v in wrong
            )
            return "rejected"
        with self._journal.phase("capture", attempt.path.name):
            await self._measuring.capture(deployment, attempt, server)
        for cell in cells:
            if not self._has_time_for(pace(self._folder.journal()).cell_s(cell.name)):
                facts["reason"] = f"stopped before {cell.name}"
                return "interrupted"
            await self._measuring.measure(deployment, attempt, server, cell)
        return "complete"

    async def _audit(
        self, deployment: PlannedDeployment, attempt: AttemptFolder, server: Server
    ) -> tuple[Any, ...]:
        engine = self._plan.engine
        config = await metrics.fetch_json(
            server.base_url + engine.config_path, server.headers, server.proxy
        )
        configured = engine.config_facts(config) if isinstance(config, Mapping) else ()
        if config is not None:
            attempt.write_json("server_info.json", scrubbed(config))
        found = self._audited(attempt, configured)
        verdicts = effective.judge(
            found, deployment.arm.expected, self._plan.read.experiment.sampling
        )
        attempt.write_json("audit.json", {"audit": found, "verdicts": verdicts})
        return verdicts

    def _audited(self, attempt: AttemptFolder, configured: Iterable[Fact]) -> Audit:
        """Give the audit of what the log holds by now."""
        lines = read_lines(attempt.log) if attempt.log.exists() else ()
        clean = map(attempt.redaction.text, lines)
        return audit_lines(clean, self._plan.engine.log_patterns(), configured)


def _launch_facts(server: Server) -> dict[str, Any]:
    command = server.command
    return {
        "argv": scrubbed(command.argv) if command else None,
        "environment": scrubbed(command.environment) if command else None,
        "pid": server.pid,
        "base_url": server.base_url,
        "metrics_url": server.metrics_url,
        "through_proxy": server.proxy is not None,
        "machine": provenance.machine(),
    }
