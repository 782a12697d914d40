"""Measuring a served deployment: captures and cells. Every cell is on disk when it is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import attrs

import specbench
from specbench.artifacts import AttemptFolder
from specbench.capture_facts import TOP_LOGPROBS
from specbench.capturing import captured
from specbench.errors import DeploymentError
from specbench.experiment.model import Sampling
from specbench.experiment.prompt import Prompt
from specbench.facts import Output, RequestRow
from specbench.journal import Journal
from specbench.judge.cells import same_prompts
from specbench.judge.counters import prefix_hit_rate
from specbench.judge.prompt_reuse import prompt_reuse, runs_of
from specbench.judge.window import Judged, judge_window
from specbench.launchers.accelerators import VISIBLE
from specbench.launchers.server import Server
from specbench.observe import metrics
from specbench.observe.sampler import sampling
from specbench.plan import Plan, PlannedDeployment
from specbench.planned_cell import (
    PlannedCell,
    sent_order,
    steady_arrivals_ns,
    warm_up_requests,
)
from specbench.stopping import Stopping
from specbench.traffic.drive import drive
from specbench.traffic.loops import LoadPoint
from specbench.traffic.requests import Wording, cut_short, filling, measured, warming
from specbench.traffic.warmup import warm

OnRow = Callable[[RequestRow], None]
GREEDY = Sampling(name="greedy")
FILLING = 8
"""Requests in flight while a warm prefix cache is filled, which is not measured."""


class Measuring:
    """Drives what a plan asks of a server, into an attempt's folder."""

    def __init__(
        self, planned: Plan, run_id: str, journal: Journal, on_row: OnRow, stopping: Stopping
    ) -> None:
        self._plan = planned
        self._run_id = run_id
        self._journal = journal
        self._on_row = on_row
        self._stopping = stopping
        self._load = planned.read.experiment.load
        self._seed = planned.read.experiment.design.seed

    async def capture(
        self, deployment: PlannedDeployment, attempt: AttemptFolder, server: Server
    ) -> None:
        """Record the greedy outputs on the correctness prompts, each time in another order.

        Every arm is asked for log-probabilities, unless its engine would not draft then: the
        captures would show another path than the one that is measured.
        """
        asked, workload = self._plan.read.experiment.correctness, self._plan.read.correctness
        if asked is None or workload is None:
            return
        plain = deployment.arm.counting is None
        target = self._plan.read.experiment.target
        asks_logprobs = plain or self._plan.engine.drafts_with_logprobs(target)
        for number in range(1, asked.captures + 1):
            salt = f"{self._run_id}/{attempt.path.name}/capture-{number}"
            windows = await captured(
                workload.prompts,
                attrs.evolve(
                    self._wording(server, GREEDY, salt),
                    top_logprobs=TOP_LOGPROBS if asks_logprobs else None,
                ),
                server.base_url,
                self._load.timeouts,
                proxy=server.proxy,
                concurrency=asked.concurrency,
                seed=self._seed + number,
            )
            attempt.write_capture(number, windows)

    async def measure(
        self,
        deployment: PlannedDeployment,
        attempt: AttemptFolder,
        server: Server,
        cell: PlannedCell,
    ) -> None:
        """Measure one cell: warm, settle, snapshot, drive, settle, snapshot, write, judge."""
        prompts = sent_order(self._plan.read, cell.stratum)
        salt = f"{self._run_id}/{attempt.path.name}/{cell.name}"
        wording = self._wording(server, cell.sampling, salt)
        url, names = server.metrics_url, self._plan.engine.counters()
        where = (attempt.path.name, cell.name)
        asked = LoadPoint(
            base_url=server.base_url,
            proxy=server.proxy,
            timeouts=self._load.timeouts,
            concurrency=cell.concurrency,
            arrivals_ns=cell.arrivals_ns,
            max_in_flight=self._load.open.max_in_flight if self._load.open else None,
            processes=self._load.processes,
        )
        with self._journal.phase("warm", *where):
            wave = warm_up_requests(self._load, cell)
            spoken = attrs.evolve(wording, salt=f"{salt}/warm")
            steady = attrs.evolve(asked, arrivals_ns=steady_arrivals_ns(cell, wave))
            warmed = await warm(
                lambda number: drive(warming(prompts, wave, number, spoken), steady)
            )
            # Last, so that the warm-up's own prompts push none of them out again.
            filled = await self._fill(prompts, wording, asked)
        requests = measured(prompts, cell.requests, wording)
        loads = {
            other.concurrency: other.requests
            for other in deployment.cells
            if (other.stratum, other.sampling) == (cell.stratum, cell.sampling)
            and other.concurrency is not None
        }
        with self._journal.phase("settle", *where):
            before, settled_before = await metrics.settled(url, names, server.proxy)
        every_s = self._plan.read.experiment.sample_every_s
        visible = deployment.arm.command.environment.get(VISIBLE)
        with (
            self._journal.phase("drive", *where),
            self._stopping.finishing(),
            sampling(url, names, every_s, visible, server.proxy) as sampler,
        ):
            window = await drive(
                requests, asked, on_row=self._on_row, stop=lambda: self._stopping.asked
            )
        if cut_short(requests, window.rows):
            await self._stopping.end()
        lost: DeploymentError | None = None
        try:
            with self._journal.phase("settle", *where):
                after, settled_after = await metrics.settled(url, names, server.proxy)
        except DeploymentError as error:
            # The server died in the window: what the client saw of that is evidence too.
            after, settled_after, lost = "", False, error
        settled = settled_before and settled_after
        with self._journal.phase("write", *where):
            attempt.write_cell(
                cell.name,
                attrs.evolve(window, outputs=_with_reuse(window.outputs, prompts)),
                before=before,
                after=after,
                samples=sampler.samples(),
                facts={
                    "stratum": cell.stratum,
                    "sampling": cell.sampling.name,
                    "arrival_rate": cell.arrival_rate,
                    "max_in_flight": asked.max_in_flight,
                    "requests": cell.requests,
                    "loads": loads,
                    "aborted": lost is not None,
                    "warmup": attrs.asdict(warmed),
                    "filled": filled,
                    "settled": settled,
                    "sampler": attrs.asdict(sampler.cost()),
                    "specbench": specbench.__version__,
                },
            )
        judged = judge_window(
            window.rows,
            concurrency=cell.concurrency,
            client=window.client,
            max_in_flight=asked.max_in_flight,
            before=metrics.parse(before),
            after=metrics.parse(after),
            settled=settled,
            names=names,
            expected=deployment.arm.expected,
            counting=deployment.arm.counting,
            required=self._plan.read.experiment.gates,
            prefix_cache=self._plan.read.experiment.prefix_cache,
            more=tuple(filter(None, [same_prompts(loads, len(prompts))])),
        )
        self._journal.note("cell", attempt.path.name, _told(judged), cell.name)
        if lost is not None:
            raise lost

    async def _fill(
        self, prompts: Sequence[Prompt], wording: Wording, asked: LoadPoint
    ) -> int | None:
        """Fill a prefix cache that is to be warm, and give the prompts that succeeded."""
        if wording.shared_salt is None:
            return None
        requests = filling(prompts, attrs.evolve(wording, salt=f"{wording.salt}/fill"))
        point = attrs.evolve(asked, concurrency=FILLING, arrivals_ns=(), processes=1)
        return sum(row.status == "ok" for row in (await drive(requests, point)).rows)

    def _wording(self, server: Server, sampling: Sampling, salt: str) -> Wording:
        engine = self._plan.engine
        warm_cache = self._plan.read.experiment.prefix_cache == "warm"
        return Wording(
            host=urlsplit(server.base_url).netloc,
            path=server.request_target(engine.chat_path),
            model=server.model,
            headers=server.request_headers(),
            sampling=sampling,
            salt=salt,
            # Of this deployment: another launch of a server begins with an empty cache anyway.
            shared_salt=salt.rpartition("/")[0] if warm_cache else None,
        )


def _with_reuse(outputs: Sequence[Output], prompts: Sequence[Prompt]) -> tuple[Output, ...]:
    """Give outputs with the share of them that their prompts hold."""
    asked = {output.prompt_id for output in outputs}
    held = {
        prompt.id: frozenset(run for message in prompt.messages for run in runs_of(message.content))
        for prompt in prompts
        if prompt.id in asked
    }
    return tuple(
        attrs.evolve(output, prompt_reuse=prompt_reuse(held[output.prompt_id], output.text))
        for output in outputs
    )


def _told(judged: Judged) -> dict[str, Any]:
    """Give what is worth telling while the run goes on."""
    failed = [
        f"{v.gate}: {v.observed}" + (f" ({v.advice})" if v.advice else "")
        for v in judged.verdicts
        if v.outcome == "fail"
    ]
    return {
        "output_throughput": judged.summary.output_throughput,
        "tpot_p50_s": judged.summary.tpot_p50_s,
        "ttft_p50_s": judged.summary.ttft_p50_s,
        "prefix_hit_rate": prefix_hit_rate(judged.delta) if judged.delta else None,
        "acceptance_rate": judged.ratios.acceptance_rate if judged.ratios else None,
        "rejected": "; ".join(failed),
    }
