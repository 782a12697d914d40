"""A plan to what it may find and cost: one virtual deployment of every arm, in virtual time. Pure.

Requests are those that a run would send, read as the simulated server reads them and played by its
scheduler. Every number of it comes from a cost model and is marked SIMULATED wherever it is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import msgspec

from specbench.analysis.detectable import Reach, reach
from specbench.engines.simulated.answers import Ask, ask
from specbench.engines.simulated.arguments import Configured
from specbench.engines.simulated.prefix_cache import PrefixCache
from specbench.engines.simulated.presets import Preset
from specbench.engines.simulated.scheduler import Request, State
from specbench.engines.simulated.script import Script, blocks, script
from specbench.engines.simulated.served import Version
from specbench.engines.simulated.text import Deviation
from specbench.engines.simulated.virtual import VirtualWindow, closed_loop, open_loop
from specbench.errors import ExperimentError, Problem
from specbench.experiment.model import Sampling
from specbench.judge import counters
from specbench.judge.cells import summarise
from specbench.methods import Method
from specbench.plan import Plan, PlannedArm
from specbench.planned_cell import (
    PlannedCell,
    sent_order,
    steady_arrivals_ns,
    warm_up_requests,
)
from specbench.stand_in import StandIn
from specbench.traffic.requests import TimedRequest, Wording, measured, shuffled, warming
from specbench.traffic.warmup import MOST_WAVES, agree
from specbench.units import seconds

SIMULATED_LAUNCH_S = 1.0


@attrs.frozen(kw_only=True)
class SimulatedCell:
    """What one window would show of an arm. None where a rule withholds the number."""

    cell: PlannedCell
    output_throughput: float | None
    ratio: float | None
    """Of the output throughput to the baseline's; None for the baseline."""
    ttft_p50_s: float | None
    tpot_p50_s: float | None
    acceptance_length: float | None
    tokens_per_step: float | None
    preemptions: int
    warm_up_s: float
    window_s: float


@attrs.frozen(kw_only=True)
class SimulatedArm:
    """One virtual deployment."""

    name: str
    async_scheduling: bool
    launch_s: float
    captures_s: float
    cells: tuple[SimulatedCell, ...]


@attrs.frozen(kw_only=True)
class ExpectedTime:
    """What all deployments of all blocks would take."""

    deployments: int
    launches_s: float
    captures_s: float
    warm_up_s: float
    windows_s: float
    gpus: int
    """Held all the time; 0 for the simulated engine, which needs none."""

    @property
    def wall_s(self) -> float:
        """Give the time from the first launch to the end of the last window."""
        return self.launches_s + self.captures_s + self.warm_up_s + self.windows_s

    @property
    def gpu_hours(self) -> float:
        """Give wall hours x GPUs."""
        return self.wall_s / 3600 * self.gpus


@attrs.frozen(kw_only=True)
class Simulation:
    """Everything that was played."""

    preset: Preset
    shapes: Version
    """The vLLM whose defaults decide about scheduling and token budget."""
    arms: tuple[SimulatedArm, ...]
    """The baseline first."""
    not_played: Mapping[str, str]
    """Arms that would not come up, and why."""
    expected: ExpectedTime
    notes: tuple[str, ...]


def simulate(
    planned: Plan, methods: Mapping[str, Method[Any]], preset: str | None = None
) -> Simulation:
    """Play one deployment of every arm, its cells in the order of its first block.

    `preset` stands in for the target. Without it that of a simulated target is taken, or the
    default.

    Raises:
        ExperimentError: There is no such preset, it does not serve the baseline, or a prompt does
            not fit.
    """
    stand_in = StandIn(planned, methods, preset)
    # The repeat of the baseline is the baseline once more.
    arms = [arm for arm in planned.launched() if arm.role != "noise_floor"]
    arms.sort(key=lambda arm: arm.role != "baseline")
    not_played = {arm.name: "; ".join(arm.unservable) for arm in planned.arms if arm.unservable}
    notes = [*planned.notes, *stand_in.notes()]
    played: list[SimulatedArm] = []
    plain: Mapping[str, float | None] = {}
    for arm in arms:
        ready = stand_in.configured(arm)
        if ready.refusal is not None:
            not_played[arm.name] = f"refused at launch: {' '.join(ready.refusal.split())}"
            if arm.role == "baseline":
                said = f"preset {stand_in.preset.name} cannot serve the baseline, "
                raise ExperimentError([Problem(said + not_played[arm.name])])
            continue
        method = ready.served.method
        if method not in ("none", *stand_in.preset.chains):
            notes.append(
                f"arm {arm.name!r}: preset {stand_in.preset.name} does not know {method!r} and "
                "takes a draft model's cost and acceptance"
            )
        found = _Deployment(planned, arm, ready).played(plain)
        plain = plain or {one.cell.name: one.output_throughput for one in found.cells}
        played.append(found)
    return Simulation(
        preset=stand_in.preset,
        shapes=stand_in.shapes,
        arms=tuple(played),
        not_played=not_played,
        expected=_expected(planned, played),
        notes=tuple(notes),
    )


def reach_of(planned: Plan, *, noise: float, power: float) -> Reach:
    """Give what the design could detect. Holm's procedure goes over arms x strata x samplings."""
    read, launched = planned.read, planned.launched()
    baselines = sum(arm.role != "arm" for arm in launched)
    workloads = len(read.strata()) * len(read.experiment.sampling)
    return reach(
        len({deployment.block for deployment in planned.deployments}),
        noise=noise,
        power=power,
        baselines=baselines,
        comparisons=(len(launched) - baselines) * workloads,
    )


class _Deployment:
    """One virtual server, whose prefix cache lives on from window to window."""

    def __init__(self, planned: Plan, arm: PlannedArm, ready: Configured) -> None:
        self._plan = planned
        self._arm = arm
        self._ready = ready
        self._rules = ready.rules()
        self._cost = ready.preset.cost(
            method=ready.served.method,
            async_scheduling=ready.served.async_scheduling,
            speed=ready.speed,
        )
        held = self._rules.kv_blocks if ready.served.prefix_caching else 0
        self._state = State(cache=PrefixCache(capacity=held))
        self._scripts: dict[tuple[object, ...], Script] = {}

    def played(self, plain: Mapping[str, float | None]) -> SimulatedArm:
        """Give what it shows. `plain` holds the baseline's throughput by cell; empty for itself."""
        own = next(d for d in self._plan.deployments if d.arm.name == self._arm.name)
        return SimulatedArm(
            name=self._arm.name,
            async_scheduling=self._ready.served.async_scheduling,
            launch_s=self._launch_s(),
            captures_s=self._captures_s(),
            cells=tuple(self._cell(cell, plain.get(cell.name)) for cell in own.cells),
        )

    def _launch_s(self) -> float:
        if self._arm.attached is not None:
            return 0.0
        if self._plan.engine.simulated:
            return SIMULATED_LAUNCH_S
        return self._ready.preset.ready_s(self._ready.served.method)

    def _captures_s(self) -> float:
        asked, workload = self._plan.read.experiment.correctness, self._plan.read.correctness
        if asked is None or workload is None:
            return 0.0
        total_s = 0.0
        for number in range(1, asked.captures + 1):
            prompts = shuffled(workload.prompts, self._plan.read.experiment.design.seed + number)
            for concurrency in asked.concurrency:
                wording = self._wording(Sampling(name="greedy"), f"capture-{number}-c{concurrency}")
                requests = measured(prompts, len(prompts), wording)
                total_s += self._window(requests, concurrency).duration_s
        return total_s

    def _cell(self, cell: PlannedCell, plain: float | None) -> SimulatedCell:
        read = self._plan.read
        prompts = sent_order(read, cell.stratum)
        wording = self._wording(cell.sampling, cell.name)
        spoken = attrs.evolve(wording, salt=f"{wording.salt}/warm")
        wave = warm_up_requests(read.experiment.load, cell)
        rates: list[float] = []
        warm_up_s = 0.0
        while len(rates) < MOST_WAVES and not agree(rates):
            requests = warming(prompts, wave, len(rates), spoken)
            warmed = self._window(requests, cell.concurrency, steady_arrivals_ns(cell, wave))
            rates.append(summarise(warmed.rows, cell.concurrency).output_throughput or 0.0)
            warm_up_s += warmed.duration_s
        window = self._window(
            measured(prompts, cell.requests, wording), cell.concurrency, cell.arrivals_ns
        )
        # The rows hold no event stamps, so what is made of those says nothing.
        numbers = summarise(window.rows, cell.concurrency)
        ratios = window.acceptance and counters.summarise(
            window.acceptance, completion_tokens=numbers.output_tokens, requests_failed=0
        )
        rate = numbers.output_throughput
        return SimulatedCell(
            cell=cell,
            output_throughput=rate,
            ratio=rate / plain if rate and plain else None,
            ttft_p50_s=numbers.ttft_p50_s,
            tpot_p50_s=numbers.tpot_p50_s,
            acceptance_length=ratios.acceptance_length if ratios else None,
            tokens_per_step=ratios.tokens_per_step if ratios else None,
            preemptions=window.preempted,
            warm_up_s=warm_up_s,
            window_s=window.duration_s,
        )

    def _window(
        self,
        requests: Sequence[TimedRequest],
        concurrency: int | None,
        arrivals_ns: Sequence[int] = (),
    ) -> VirtualWindow:
        read = [self._request(request) for request in requests]
        rules, cost, state = self._rules, self._cost, self._state
        if concurrency is None:
            instants_s = [seconds(instant_ns) for instant_ns in arrivals_ns]
            window = open_loop(read, arrivals_s=instants_s, rules=rules, cost=cost, state=state)
        else:
            window = closed_loop(read, concurrency=concurrency, rules=rules, cost=cost, state=state)
        self._state = window.state
        return window

    def _request(self, request: TimedRequest) -> Request:
        """Read what would be sent as the server would."""
        _, _, body = request.wire.partition(b"\r\n\r\n")
        asked = ask(msgspec.json.decode(body), request.request_id)
        written = self._script(asked)
        needed, longest = written.prompt_tokens + asked.max_tokens, self._ready.served.max_model_len
        if needed > longest:
            said = (
                f"prompt {request.prompt_id!r} and its answer may take {needed} tokens as the "
                f"simulator counts, max_model_len is {longest}: the server would refuse it"
            )
            hint = "write a larger target.max_model_len, or a lower max_tokens"
            raise ExperimentError([Problem(said, hint, str(self._plan.read.path))])
        return Request(
            request_id=request.request_id,
            script=written,
            blocks=blocks(written.prompt, asked.salt),
        )

    def _script(self, asked: Ask) -> Script:
        key = (asked.prompt, asked.max_tokens, asked.ignore_eos, asked.sampled)
        if key not in self._scripts:
            self._scripts[key] = script(
                asked.prompt,
                cap=asked.max_tokens,
                seed=self._ready.seed,
                habits=self._ready.preset.habits,
                drafting=self._rules.drafting,
                deviation=Deviation(),
                ignore_eos=asked.ignore_eos,
                sampled=asked.sampled,
            )
        return self._scripts[key]

    def _wording(self, sampling: Sampling, window: str) -> Wording:
        engine = self._plan.engine
        return Wording(
            host="",
            path=engine.chat_path,
            model=engine.served_name,
            sampling=sampling,
            salt=f"{self._arm.name}/{window}",
        )


def _expected(planned: Plan, played: Iterable[SimulatedArm]) -> ExpectedTime:
    by_name = {one.name: one for one in played}
    served = (deployment.arm.arm.name for deployment in planned.deployments)
    found = [by_name[name] for name in served if name in by_name]
    return ExpectedTime(
        deployments=len(found),
        launches_s=sum(one.launch_s for one in found),
        captures_s=sum(one.captures_s for one in found),
        warm_up_s=sum(cell.warm_up_s for one in found for cell in one.cells),
        windows_s=sum(cell.window_s for one in found for cell in one.cells),
        gpus=0 if planned.engine.simulated else planned.read.experiment.target.tensor_parallel,
    )
