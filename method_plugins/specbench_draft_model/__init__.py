"""A smaller model drafts, the target verifies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from specbench import Confound, Counting, Expected, Launch, Method, hookimpl
from specbench.errors import Problem
from specbench.experiment.model import Target
from specbench.experiment.said import said
from specbench.methods import release

RENAMING = ("eagle-", "eagle3", "dflash", "dspark")
"""Parts of a path by which vLLM silently turns draft_model into another method
(vllm/config/speculative.py, 0.11 to 0.33)."""
TP_OF_ONE = "vllm/v1/spec_decode/draft_model.py, 0.23+"
"""Refuses a draft TP of 1 under another target TP late, in the worker."""
TP_OF_ANOTHER = "vllm/config/speculative.py, 0.11+"
"""Refuses any draft TP but 1 and the target's, before a model is loaded."""

CONSTRAINED = ((0, 23), (0, 24))
"""Read versions in which a draft model costs more than its drafting (vllm/config/vllm.py)."""


@attrs.frozen(kw_only=True)
class DraftModelOptions:
    """Which model drafts, and how much."""

    model: str = attrs.field(metadata=said("Absolute path or hub id of the draft.", minLength=1))
    num_speculative_tokens: int = attrs.field(metadata=said("Tokens drafted at once.", minimum=1))
    draft_tensor_parallel: int | None = attrs.field(
        default=None,
        metadata=said("Accelerators of the draft. The target's when left out.", minimum=1),
    )


class DraftModel(Method[DraftModelOptions]):
    """vLLM's `draft_model`, known from 0.23 on."""

    name = "draft_model"
    options = DraftModelOptions

    def check(self, options: DraftModelOptions, target: Target) -> tuple[Problem, ...]:
        """Tell a draft TP that vLLM refuses, and refuse a path that would rename the method."""
        problems = []
        asked = options.draft_tensor_parallel
        if asked is not None and asked != target.tensor_parallel:
            problems.append(
                Problem(
                    f"draft_tensor_parallel {asked} differs from the target's "
                    f"{target.tensor_parallel}",
                    "vLLM's draft_model needs them equal",
                    source=TP_OF_ONE if asked == 1 else TP_OF_ANOTHER,
                )
            )
        renamed = [part for part in RENAMING if part in options.model.lower()]
        if renamed and target.engine == "vllm":
            problems.append(
                Problem(
                    f"the draft's path {options.model!r} contains {renamed[0]!r}, by which vLLM "
                    "runs another method than draft_model",
                    "rename the folder, or use method eagle",
                )
            )
        return tuple(problems)

    def assets(self, options: DraftModelOptions) -> tuple[str, ...]:
        """Digest the draft's checkpoint."""
        return (options.model,)

    def launch(self, options: DraftModelOptions, target: Target) -> Launch:
        """Ask for a draft model with the target's tensor parallelism."""
        parallel = options.draft_tensor_parallel or target.tensor_parallel
        return Launch(
            speculation={
                "method": "draft_model",
                "model": options.model,
                "num_speculative_tokens": options.num_speculative_tokens,
                "draft_tensor_parallel_size": parallel,
            }
        )

    def expected(self, options: DraftModelOptions, target: Target) -> Expected:
        """Expect this draft, at this depth and with this parallelism."""
        parallel = options.draft_tensor_parallel or target.tensor_parallel
        return Expected(
            methods=("draft_model",),
            drafter=options.model,
            longest_draft=options.num_speculative_tokens,
            properties={"draft_tensor_parallel": str(parallel)},
        )

    def confounds(self, options: DraftModelOptions, target: Target) -> tuple[Confound, ...]:  # noqa: ARG002
        """Name what vLLM changes with a draft model (vllm/config/vllm.py, 0.23 and 0.24)."""
        memory = Confound(
            fact="kv_cache_tokens",
            meaning="weights and KV of the draft leave fewer KV tokens: favours the baseline "
            "when memory binds",
        )
        version = release(target)
        if version not in (None, *CONSTRAINED) or (version is None and target.engine != "vllm"):
            return (memory,)
        # Flags of the target hold in every arm; what no version tells is known after the launch.
        known = version is not None
        asked = target.flags.get("async-scheduling")
        lost = Confound(
            fact="async_scheduling",
            value="False" if known else None,
            meaning="a draft model loses asynchronous scheduling on 0.23 and 0.24, so each "
            "step also pays for the scheduler: favours the baseline",
        )
        return (
            *(() if isinstance(asked, bool) else (lost,)),
            Confound(
                fact="model_runner",
                value="V1" if known else None,
                meaning="a draft model falls back to model runner V1 while the baseline may use "
                "V2: the step itself costs something else",
            ),
            Confound(
                fact="max_num_scheduled_tokens",
                value=_budget(target) if known else None,
                meaning="a draft model keeps one slot a sequence, so that less prefill fits into "
                "a step: favours the baseline at high load",
            ),
            memory,
        )

    def counting(self, options: DraftModelOptions, target: Target) -> Counting | None:  # noqa: ARG002
        """Every decode step drafts; a draft may be cut at the budget or at the length limit."""
        return Counting(every_step_drafts=True, full_depth=False)


def _budget(target: Target) -> str | None:
    """Give what one slot a sequence leaves of the token budget, where flags tell it."""
    budget, sequences = (
        target.flags.get(flag) for flag in ("max-num-batched-tokens", "max-num-seqs")
    )
    if isinstance(budget, int) and isinstance(sequences, int):
        return str(budget - sequences)
    return None


@hookimpl
def specbench_methods() -> Iterable[Method[Any]]:
    """Give draft_model."""
    yield DraftModel()
