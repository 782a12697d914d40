"""The engine `simulated`: vLLM's argv, log, configuration and counters over a cost model."""

from __future__ import annotations

from specbench.engines.contract import Setting
from specbench.engines.vllm.engine import VllmEngine
from specbench.errors import Problem
from specbench.experiment.model import Target
from specbench.methods import Command, Launch

KNOWN_FLAGS = ("max-num-seqs", "seed", "step-ms", "token-us", "prefill-token-us")


class SimulatedEngine(VllmEngine):
    """A real HTTP server whose truth is known. Its numbers are marked SIMULATED everywhere."""

    name = "simulated"
    simulated = True
    distributions = ("specbench",)

    def check(self, target: Target, launch: Launch) -> tuple[Problem, ...]:
        """Refuse flags that the simulated server does not have."""
        unknown = [flag for flag in target.flags if flag not in KNOWN_FLAGS]
        depth = launch.speculation.get("num_speculative_tokens")
        problems = [
            Problem(
                f"the simulated engine has no flag {flag!r}", f"one of: {', '.join(KNOWN_FLAGS)}"
            )
            for flag in unknown
        ]
        if launch.speculation and not isinstance(depth, int):
            problems.append(Problem("the simulated engine needs num_speculative_tokens"))
        return tuple(problems)

    def command(self, target: Target, launch: Launch, python: str) -> Command:
        """Give `python -m specbench.engines.simulated.server ...`."""
        argv = [python, "-m", "specbench.engines.simulated.server"]
        return Command(
            argv=(*argv, *self.arguments(target, launch)),
            environment={**target.env, **launch.environment},
        )

    def setting(self, fact: str, value: str) -> Setting | None:
        """Give the one property that the simulated server can be told to lack."""
        return super().setting(fact, value) if fact == "async_scheduling" else None

    def per_request_metrics(self, target: Target) -> Launch | None:  # noqa: ARG002
        """Tell no request's acceptance."""
        return None
