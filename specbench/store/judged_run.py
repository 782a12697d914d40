"""A raw run folder to facts and rulings: everything that the index holds, before it is rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import attrs
import cattrs

from specbench.artifacts import AttemptFolder, CellFolder, RunFolder
from specbench.client_facts import ClientFacts
from specbench.engines.known import ENGINES
from specbench.experiment.model import Gates, Sampling
from specbench.facts import (
    Audit,
    CounterNames,
    CounterSnapshot,
    LogPattern,
    RequestRow,
    Sampled,
    Verdict,
)
from specbench.judge import cells as cell_rules
from specbench.judge import effective, samples
from specbench.judge.log_places import Span, fallen
from specbench.judge.window import Judged, judge_window
from specbench.log_facts import Fell
from specbench.methods import Counting, Expected
from specbench.observe.logs import log_times, read_lines
from specbench.observe.metrics import parse
from specbench.whole_files import read_json

Facts = dict[str, Any]

LOSSY = {"synthetic": "accepts drafts by chance", "fly": "verifies with loss"}
"""Verifications that do not keep the output (vllm/config/speculative.py, 0.23 and 0.33)."""


@attrs.frozen
class JudgedRun:
    """A run folder with its plan."""

    folder: RunFolder
    plan: Facts

    @classmethod
    def of(cls, folder: RunFolder) -> JudgedRun:
        """Give the run of a folder."""
        return cls(folder, read_json(folder.path / "plan.json"))

    @property
    def run_id(self) -> str:
        """The folder's name."""
        return self.folder.path.name

    @property
    def experiment(self) -> Facts:
        """The resolved experiment."""
        found: Facts = self.plan["experiment"]
        return found

    @property
    def counter_names(self) -> CounterNames:
        """How its engine names its counters."""
        return ENGINES[self.experiment["target"]["engine"]].counters()

    @property
    def log_patterns(self) -> tuple[LogPattern, ...]:
        """The lines of its servers' logs that are read."""
        return ENGINES[self.experiment["target"]["engine"]].log_patterns()

    @cached_property
    def windows(self) -> Mapping[tuple[str, str], Span]:
        """When each window was driven, by attempt and cell: nobody else asks its server then."""
        began: dict[tuple[str, str], float] = {}
        found: dict[tuple[str, str], Span] = {}
        for entry in self.folder.journal():
            place = entry.deployment, entry.cell
            if entry.phase == "drive" and entry.state == "start":
                began[place] = entry.unix_s
            elif entry.phase == "drive" and entry.state == "end" and place in began:
                found[place] = Span(began[place], entry.unix_s)
        return found

    def arm(self, deployment: str) -> Facts:
        """Give the planned arm of a deployment's name."""
        found: Facts = self.plan["arms"][deployment.split("-", 2)[2]]
        return found


@attrs.frozen(kw_only=True)
class JudgedCell:
    """A judged cell."""

    folder: CellFolder
    cell_id: str
    facts: Facts
    rows: tuple[RequestRow, ...]
    before: CounterSnapshot
    after: CounterSnapshot
    judged: Judged
    sampled: Sampled
    reuse: Mapping[str, float | None]
    """Prompt reuse by request id."""


@attrs.frozen(kw_only=True)
class JudgedDeployment:
    """A closed attempt and what is ruled on it."""

    attempt: AttemptFolder
    deployment_id: str
    block: int
    place: int
    arm: Facts
    closing: Facts
    audit: Audit | None
    verdicts: tuple[Verdict, ...]
    cells: tuple[JudgedCell, ...]
    split: bool
    damaged: tuple[Verdict, ...]
    """A failed verdict for each cell whose evidence is not as it was written."""
    fell: Mapping[str, Fell]
    """Where each line of its log whose time matters fell."""
    host: str | None
    """The node that it was launched on."""
    same_process_as: str | None
    """An earlier attempt of another block that measured the same server process."""

    @property
    def caveats(self) -> tuple[str, ...]:
        """What bars its arm from every claim: told by the method, or by the server alone."""
        declared = tuple(self.arm["caveats"])
        stated = self.audit.value("rejection_sample_method") if self.audit is not None else None
        if stated in LOSSY and not declared:
            return (f"the server {LOSSY[stated]} (rejection_sample_method {stated})",)
        return declared


def judged_deployments(run: JudgedRun) -> Iterator[JudgedDeployment]:
    """Give every closed attempt of a run, judged again from its stored facts."""
    attempts = [item for item in run.folder.attempts() if item.closing() is not None]
    holders = [item.deployment for item in attempts if item.cells()]
    processes: dict[float, AttemptFolder] = {}
    samplings = cattrs.structure(run.experiment["sampling"], tuple[Sampling, ...])
    for attempt in attempts:
        arm = run.arm(attempt.deployment)
        block, place, _ = attempt.deployment.removeprefix("b").split("-", 2)
        found = attempt.audit()
        expected = cattrs.structure(arm["expected"], Expected)
        yield JudgedDeployment(
            attempt=attempt,
            deployment_id=f"{run.run_id}/{attempt.path.name}",
            block=int(block),
            place=int(place),
            arm=arm,
            closing=attempt.closing() or {},
            audit=found,
            # Without its audit a measured deployment is unknown, which is not the same as good.
            verdicts=(
                effective.judge(found or Audit(facts=()), expected, samplings)
                if found or attempt.cells()
                else ()
            ),
            cells=tuple(_cells(run, attempt, arm, expected)),
            split=holders.count(attempt.deployment) > 1,
            damaged=tuple(_damaged(attempt)),
            fell=_fallen(run, attempt),
            host=_launch(attempt).get("machine", {}).get("host"),
            same_process_as=_earlier(processes, attempt),
        )


def _launch(attempt: AttemptFolder) -> Facts:
    path = attempt.path / "launch.json"
    return read_json(path) if path.exists() else {}


def _fallen(run: JudgedRun, attempt: AttemptFolder) -> Mapping[str, Fell]:
    """Place what an attempt's log warns of. The log is read where a warning needs it only."""
    closing = attempt.closing() or {}
    timed = {pattern.fact for pattern in run.log_patterns if pattern.timed}
    if not any(warning["kind"] in timed for warning in closing.get("warnings", ())):
        return {}
    places = {cell: run.windows.get((attempt.path.name, cell)) for cell in attempt.cells()}
    windows = {cell: window for cell, window in places.items() if window is not None}
    return fallen(
        log_times(read_lines(attempt.log), run.log_patterns),
        Span(closing["started_unix_s"], closing["ended_unix_s"]),
        windows if len(windows) == len(places) else None,
    )


def _cells(
    run: JudgedRun, attempt: AttemptFolder, arm: Facts, expected: Expected
) -> Iterator[JudgedCell]:
    counting = cattrs.structure(arm["counting"], Counting) if arm["counting"] else None
    required = cattrs.structure(run.experiment["gates"], Gates)
    for name, folder in attempt.cells().items():
        if folder.damage():
            continue
        facts = folder.facts()
        rows, client = folder.rows(), facts.get("client")
        before, after = map(parse, folder.counters())
        judged = judge_window(
            rows,
            concurrency=facts["concurrency"],
            client=cattrs.structure(client, ClientFacts) if client else None,
            max_in_flight=facts.get("max_in_flight"),
            before=before,
            after=after,
            settled=facts["settled"],
            names=run.counter_names,
            expected=expected,
            counting=counting,
            required=required,
            prefix_cache=run.experiment.get("prefix_cache", "cell"),
            more=_same_prompts(run, facts),
        )
        yield JudgedCell(
            folder=folder,
            cell_id=f"{run.run_id}/{attempt.path.name}/{name}",
            facts=facts,
            rows=rows,
            before=before,
            after=after,
            judged=judged,
            reuse=folder.prompt_reuse(),
            sampled=samples.summarise(
                folder.samples(),
                rows,
                concurrency=facts["concurrency"],
                tokens=judged.summary.output_tokens,
            ),
        )


def _same_prompts(run: JudgedRun, facts: Facts) -> tuple[Verdict, ...]:
    counts = {int(concurrency): count for concurrency, count in facts["loads"].items()}
    verdict = cell_rules.same_prompts(counts, run.plan["prompts"][facts["stratum"]])
    return (verdict,) if verdict else ()


def _earlier(processes: dict[float, AttemptFolder], attempt: AttemptFolder) -> str | None:
    """Note an attempt's process, and give the other deployment that had it before."""
    started = (attempt.closing() or {}).get("process_start_unix_s")
    if started is None:
        return None
    first = processes.setdefault(started, attempt)
    return None if first.deployment == attempt.deployment else first.path.name


def _damaged(attempt: AttemptFolder) -> Iterator[Verdict]:
    for name, folder in attempt.cells().items():
        if damage := folder.damage():
            yield Verdict(
                gate="evidence",
                outcome="fail",
                observed=f"{name}: {damage}",
                required="every file as it was written",
                advice="the cell is left out; `specbench verify` looks at all of them",
            )
