"""The walk, nothing else: for each deployment launch, audit, capture, measure its cells, stop.

Every cell is on disk before the next begins. A launch that fails is evidence and the walk goes on.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import attrs

import specbench
from specbench.artifacts import AttemptFolder, RunFolder, Status, resolve, scrubbed, write_json
from specbench.errors import DeploymentError
from specbench.experiment.model import Sampling
from specbench.facts import JournalEntry, RequestRow, Window
from specbench.judge import effective
from specbench.judge.cells import same_prompts
from specbench.judge.window import Judged, judge_window
from specbench.launchers.local import Server, serving
from specbench.launchers.readiness import until_ready
from specbench.observe import metrics, provenance
from specbench.observe.logs import audit
from specbench.plan import Plan, PlannedCell, PlannedDeployment
from specbench.traffic.drive import drive
from specbench.traffic.requests import Wording, measured, shuffled, warming
from specbench.traffic.warmup import warm

Listener = Callable[[JournalEntry], None]
OnRow = Callable[[RequestRow], None]
GREEDY = Sampling(name="greedy")


def prepare(planned: Plan, folder: RunFolder) -> None:
    """Write what is known before anything is launched.

    Document and provenance of the run's first day stay; the plan is that of today, because the
    number of blocks may have grown.
    """
    experiment = planned.read.experiment
    if not (folder.path / "experiment.yaml").exists():
        (folder.path / "experiment.yaml").write_text(planned.read.text, encoding="utf-8")
        write_json(
            folder.path / "provenance.json",
            {
                "machine": provenance.machine(),
                "software": provenance.software(),
                "engine_version": experiment.target.version,
                "engine_libraries": provenance.packages(
                    experiment.launcher.python, provenance.ENGINE_LIBRARIES
                ),
                "target": provenance.checkpoint(experiment.target.model),
                "assets": {
                    path: provenance.checkpoint(path) for arm in planned.arms for path in arm.assets
                },
                "workloads": resolve(planned.read)["workloads"],
            },
        )
    write_json(folder.path / "plan.json", plan_facts(planned))


def plan_facts(planned: Plan) -> dict[str, Any]:
    """Give the plan as plain values, with everything that judging needs and no secret."""
    facts: dict[str, Any] = scrubbed(
        {
            "experiment": resolve(planned.read),
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
            "notes": planned.notes,
        }
    )
    return facts


async def walk(planned: Plan, folder: RunFolder, listen: Listener, on_row: OnRow) -> None:
    """Do what of the plan is not done yet."""
    steps = _Walk(planned, folder, listen, on_row)
    for name in folder.close_interrupted():
        steps.note("resume", name, {"closed": "interrupted"})
    for deployment in planned.deployments:
        await steps.deploy(deployment)


class _Walk:
    """The walk's context: where evidence goes and who is told."""

    def __init__(self, planned: Plan, folder: RunFolder, listen: Listener, on_row: OnRow) -> None:
        self._plan = planned
        self._folder = folder
        self._listen = listen
        self._on_row = on_row
        self._closed = planned.read.experiment.load.closed
        self._seed = planned.read.experiment.design.seed

    async def deploy(self, deployment: PlannedDeployment) -> None:
        """Launch one arm and measure the cells that no earlier attempt measured."""
        earlier = self._folder.attempts(deployment.name)
        done = {
            name
            for attempt in earlier
            for name, cell in attempt.cells().items()
            if not cell.facts()["aborted"]
        }
        if any((attempt.closing() or {})["status"] == "complete" for attempt in earlier):
            return
        cells = [cell for cell in deployment.cells if cell.name not in done]
        attempt = self._folder.open_attempt(deployment.name)
        status: Status = "failed"
        facts: dict[str, Any] = {"started_unix_s": time.time()}
        try:
            async with self._launched(deployment, attempt, facts) as server:
                status = await self._serve(deployment, attempt, server, cells, facts)
        except DeploymentError as error:
            facts |= self._failure(attempt, error)
        attempt.close(status, ended_unix_s=time.time(), **facts)
        reason = {"status": status, "reason": facts.get("reason", "")}
        self.note("deployment", attempt.path.name, reason)

    @asynccontextmanager
    async def _launched(
        self, deployment: PlannedDeployment, attempt: AttemptFolder, facts: dict[str, Any]
    ) -> AsyncIterator[Server]:
        """Launch a server for the length of the block, and note the code it ended with."""
        async with AsyncExitStack() as stack:
            with self._phase("launch", attempt.path.name):
                server = await stack.enter_async_context(
                    serving(deployment.arm.command, attempt.log)
                )
            try:
                yield server
            finally:
                with self._phase("stop", attempt.path.name):
                    await stack.aclose()
                facts["exit_code"] = server.exit_code

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
        with self._phase("ready", attempt.path.name):
            facts["ready_s"] = await until_ready(
                server,
                path=engine.chat_path,
                model=engine.served_name,
                timeout_s=launcher.ready_timeout_s,
            )
        with self._phase("audit", attempt.path.name):
            verdicts = await self._audit(deployment, attempt, server)
        if not effective.in_effect(verdicts):
            wrong = [v for v in verdicts if v.outcome == "fail"]
            facts["reason"] = "not in effect: " + "; ".join(
                f"{v.gate} is {v.observed}, asked {v.required}" for v in wrong
            )
            return "rejected"
        with self._phase("capture", attempt.path.name):
            await self._capture(attempt, server)
        for cell in cells:
            await self._measure(deployment, attempt, server, cell)
        return "complete"

    async def _audit(
        self, deployment: PlannedDeployment, attempt: AttemptFolder, server: Server
    ) -> tuple[Any, ...]:
        engine = self._plan.engine
        config = await metrics.fetch_json(server.base_url + engine.config_path)
        configured = engine.config_facts(config) if isinstance(config, Mapping) else ()
        if config is not None:
            attempt.write_json("server_info.json", scrubbed(config))
        log = attempt.log.read_text(encoding="utf-8", errors="replace")
        found = audit(log, engine.log_patterns(), configured)
        verdicts = effective.judge(found, deployment.arm.expected)
        attempt.write_json("audit.json", {"audit": found, "verdicts": verdicts})
        return verdicts

    async def _capture(self, attempt: AttemptFolder, server: Server) -> None:
        asked, workload = self._plan.read.experiment.correctness, self._plan.read.correctness
        if asked is None or workload is None:
            return
        for number in range(1, asked.captures + 1):
            prompts = shuffled(workload.prompts, self._seed + number)
            windows: list[Window] = []
            for concurrency in asked.concurrency:
                salt = f"{self._salt(attempt)}/capture-{number}-c{concurrency}"
                requests = measured(prompts, len(prompts), self._wording(server, GREEDY, salt))
                windows.append(
                    await drive(
                        requests,
                        base_url=server.base_url,
                        concurrency=concurrency,
                        timeout_s=self._closed.request_timeout_s,
                    )
                )
            attempt.write_capture(number, windows)

    async def _measure(
        self,
        deployment: PlannedDeployment,
        attempt: AttemptFolder,
        server: Server,
        cell: PlannedCell,
    ) -> None:
        """Measure one cell: warm, settle, snapshot, drive, settle, snapshot, write, judge."""
        prompts = shuffled(self._plan.read.prompts(cell.stratum), self._seed)
        salt = f"{self._salt(attempt)}/{cell.name}"
        wording = self._wording(server, cell.sampling, salt)
        url, names = server.base_url + self._plan.engine.metrics_path, self._plan.engine.counters()
        where = (attempt.path.name, cell.name)
        paced = partial(
            drive,
            base_url=server.base_url,
            concurrency=cell.concurrency,
            timeout_s=self._closed.request_timeout_s,
        )
        with self._phase("warm", *where):
            wave = max(self._closed.warmup, 2 * cell.concurrency)
            spoken = attrs.evolve(wording, salt=f"{salt}/warm")
            warmed = await warm(lambda number: paced(warming(prompts, wave, number, spoken)))
        requests = measured(prompts, cell.requests, wording)
        loads = {
            other.concurrency: other.requests
            for other in deployment.cells
            if (other.stratum, other.sampling) == (cell.stratum, cell.sampling)
        }
        with self._phase("settle", *where):
            before, settled_before = await metrics.settled(url, names)
        with self._phase("drive", *where, requests=cell.requests, concurrency=cell.concurrency):
            window = await paced(requests, on_row=self._on_row)
        lost: DeploymentError | None = None
        try:
            with self._phase("settle", *where):
                after, settled_after = await metrics.settled(url, names)
        except DeploymentError as error:
            # The server died in the window: what the client saw of that is evidence too.
            after, settled_after, lost = "", False, error
        settled = settled_before and settled_after
        with self._phase("write", *where):
            attempt.write_cell(
                cell.name,
                window,
                before=before,
                after=after,
                facts={
                    "stratum": cell.stratum,
                    "sampling": cell.sampling.name,
                    "requests": cell.requests,
                    "loads": loads,
                    "aborted": lost is not None,
                    "warmup": attrs.asdict(warmed),
                    "settled": settled,
                    "specbench": specbench.__version__,
                },
            )
        judged = judge_window(
            window.rows,
            concurrency=cell.concurrency,
            before=metrics.parse(before),
            after=metrics.parse(after),
            settled=settled,
            names=names,
            expected=deployment.arm.expected,
            counting=deployment.arm.counting,
            required=self._plan.read.experiment.gates,
            more=tuple(filter(None, [same_prompts(loads, len(prompts))])),
        )
        self.note("cell", attempt.path.name, _told(judged), cell.name)
        if lost is not None:
            raise lost

    def _wording(self, server: Server, sampling: Sampling, salt: str) -> Wording:
        engine = self._plan.engine
        return Wording(
            host=f"127.0.0.1:{server.port}",
            path=engine.chat_path,
            model=engine.served_name,
            sampling=sampling,
            salt=salt,
        )

    def _salt(self, attempt: AttemptFolder) -> str:
        return f"{self._folder.path.name}/{attempt.path.name}"

    def _failure(self, attempt: AttemptFolder, error: DeploymentError) -> dict[str, Any]:
        """Give why a deployment failed: our own view, and the cause that its log states."""
        log = (
            attempt.log.read_text(encoding="utf-8", errors="replace")
            if attempt.log.exists()
            else ""
        )
        cause = self._plan.engine.cause(log)
        return {
            "reason": f"{error.message}. Cause: {cause.line}",
            "kind": error.kind,
            "cause": attrs.asdict(cause),
        }

    def note(self, phase: str, deployment: str, detail: Mapping[str, Any], cell: str = "") -> None:
        """Write one remark into the journal."""
        self._tell(phase, "note", deployment, cell, detail)

    @contextmanager
    def _phase(self, phase: str, deployment: str, cell: str = "", **detail: Any) -> Iterator[None]:
        self._tell(phase, "start", deployment, cell, detail)
        try:
            yield
        finally:
            self._tell(phase, "end", deployment, cell, {})

    def _tell(
        self, phase: str, state: Any, deployment: str, cell: str, detail: Mapping[str, Any]
    ) -> None:
        entry = JournalEntry(
            unix_s=time.time(),
            monotonic_ns=time.perf_counter_ns(),
            phase=phase,
            state=state,
            deployment=deployment,
            cell=cell,
            detail=detail,
        )
        self._folder.note(entry)
        self._listen(entry)


def _launch_facts(server: Server) -> dict[str, Any]:
    return {
        "argv": scrubbed(server.command.argv),
        "environment": scrubbed(server.command.environment),
        "pid": server.pid,
        "port": server.port,
        "machine": provenance.machine(),
    }


def _told(judged: Judged) -> dict[str, Any]:
    """Give what is worth telling while the run goes on."""
    failed = [f"{v.gate}: {v.observed}" for v in judged.verdicts if v.outcome == "fail"]
    return {
        "output_throughput": judged.summary.output_throughput,
        "tpot_p50_s": judged.summary.tpot_p50_s,
        "ttft_p50_s": judged.summary.ttft_p50_s,
        "acceptance_rate": judged.ratios.acceptance_rate if judged.ratios else None,
        "rejected": "; ".join(failed),
    }
