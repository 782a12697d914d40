"""Prompt lookup: drafts are copied from earlier text that ends like the text so far."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from specbench import Confound, Counting, Expected, Launch, Method, hookimpl
from specbench.errors import Problem
from specbench.experiment.model import Target
from specbench.experiment.said import said
from specbench.methods import release

FIRST, ON_V2, WITH_ASYNC = (0, 23), (0, 32), (0, 33)
"""First read version that changes anything, and first that keeps the runner and the scheduling."""
READ_ON_V1 = ((0, 23), (0, 24))
READ_WITHOUT_ASYNC = ((0, 23), (0, 24), (0, 32))
LIKE_SIMULATED = (0, 32)
"""The version whose shapes the simulated engine speaks when none is asked for."""


@attrs.frozen(kw_only=True)
class NgramOptions:
    """How far to look and how much to draft."""

    num_speculative_tokens: int = attrs.field(
        metadata=said("Most tokens drafted at once.", minimum=1)
    )
    prompt_lookup_max: int | None = attrs.field(
        default=None,
        metadata=said("Longest n-gram that is matched. vLLM: 5, or prompt_lookup_min.", minimum=1),
    )
    prompt_lookup_min: int | None = attrs.field(
        default=None,
        metadata=said("Shortest n-gram that is matched. vLLM: prompt_lookup_max, or 5.", minimum=1),
    )


class Ngram(Method[NgramOptions]):
    """vLLM's `ngram`: on the CPU by numba up to 0.32, on the GPU with runner V2 from 0.33."""

    name = "ngram"
    options = NgramOptions

    def check(self, options: NgramOptions, target: Target) -> tuple[Problem, ...]:  # noqa: ARG002
        """Refuse a window whose shortest match is longer than its longest."""
        shortest, longest = options.prompt_lookup_min, options.prompt_lookup_max
        if shortest is not None and longest is not None and shortest > longest:
            return (
                Problem(
                    f"prompt_lookup_min {shortest} is above prompt_lookup_max {longest}",
                    "vLLM refuses it; swap them",
                ),
            )
        return ()

    def launch(self, options: NgramOptions, target: Target) -> Launch:  # noqa: ARG002
        """Ask for the n-gram proposer; what was left out stays the engine's default."""
        asked = {key: value for key, value in attrs.asdict(options).items() if value is not None}
        return Launch(speculation={"method": "ngram", **asked})

    def expected(self, options: NgramOptions, target: Target) -> Expected:  # noqa: ARG002
        """Expect the n-gram proposer, with drafts as long as the match."""
        return Expected(
            methods=("ngram",), longest_draft=options.num_speculative_tokens, depth="per_step"
        )

    def confounds(self, options: NgramOptions, target: Target) -> tuple[Confound, ...]:  # noqa: ARG002
        """Name what vLLM changes with n-gram (vllm/config/vllm.py, 0.23 to 0.32).

        What it will be is known for versions that were read, and before the launch for no other.
        """
        version = release(target)
        if target.engine == "simulated" and (version is None or version < FIRST):
            version = LIKE_SIMULATED
        found = []
        asked = target.flags.get("async-scheduling")
        if asked is not False and (version is None or FIRST <= version < WITH_ASYNC):
            found.append(
                Confound(
                    fact="async_scheduling",
                    value="False" if version in READ_WITHOUT_ASYNC else None,
                    meaning="n-gram loses asynchronous scheduling, so each step also pays for the "
                    "scheduler: favours the baseline",
                )
            )
        if version is None or FIRST <= version < ON_V2:
            found.append(
                Confound(
                    fact="model_runner",
                    value="V1" if version in READ_ON_V1 else None,
                    meaning="n-gram falls back to model runner V1 while the baseline may use V2: "
                    "the step itself costs something else",
                )
            )
        return tuple(found)

    def counting(self, options: NgramOptions, target: Target) -> Counting | None:  # noqa: ARG002
        """Up to 0.32 a step without a match drafts nothing, and a draft is as long as its match.

        From 0.33 on n-gram runs on runner V2, which fills a draft that has no match: every step
        drafts, and acceptance rates of the two do not compare (vllm/v1/worker/gpu/spec_decode).
        """
        version = None if target.engine == "simulated" else release(target)
        always = version is not None and version >= WITH_ASYNC
        return Counting(every_step_drafts=always, full_depth=False)


@hookimpl
def specbench_methods() -> Iterable[Method[Any]]:
    """Give n-gram."""
    yield Ngram()
