"""A trained head drafts from the target's own hidden states: EAGLE, EAGLE-3 and 3.1."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import attrs

from specbench import Confound, Counting, Expected, Launch, Method, hookimpl
from specbench.errors import Problem
from specbench.experiment.model import Target
from specbench.experiment.said import said

SYNTHETIC = {"rejection_sample_method": "synthetic"}


@attrs.frozen(kw_only=True)
class EagleOptions:
    """Which head drafts, and how much."""

    model: str = attrs.field(metadata=said("Absolute path or hub id of the head.", minLength=1))
    num_speculative_tokens: int = attrs.field(metadata=said("Tokens drafted at once.", minimum=1))
    head: Literal["eagle", "eagle3"] = attrs.field(
        default="eagle3", metadata=said("Generation of the head; EAGLE 3.1 is eagle3 to vLLM.")
    )
    synthetic_acceptance_length: float | None = attrs.field(
        default=None,
        metadata=said(
            "Accept at random with this mean length, to see what a better head would gain. The "
            "output is wrong on purpose, so that nothing is ever claimed (vLLM 0.23 on).",
            minimum=1,
        ),
    )


class Eagle(Method[EagleOptions]):
    """vLLM's `eagle` and `eagle3`."""

    name = "eagle"
    options = EagleOptions

    def check(self, options: EagleOptions, target: Target) -> tuple[Problem, ...]:  # noqa: ARG002
        """Refuse an acceptance length that no draft of this depth can reach."""
        length, most = options.synthetic_acceptance_length, options.num_speculative_tokens + 1
        if length is None or length <= most:
            return ()
        told = f"synthetic_acceptance_length {length:g} is above num_speculative_tokens + 1"
        return (Problem(told, f"write a number from 1 to {most}"),)

    def assets(self, options: EagleOptions) -> tuple[str, ...]:
        """Digest the head's checkpoint."""
        return (options.model,)

    def launch(self, options: EagleOptions, target: Target) -> Launch:  # noqa: ARG002
        """Ask for the head by its explicit method, so that no path can rename it."""
        length = options.synthetic_acceptance_length
        synthetic = {} if length is None else {**SYNTHETIC, "synthetic_acceptance_length": length}
        return Launch(
            speculation={
                "method": options.head,
                "model": options.model,
                "num_speculative_tokens": options.num_speculative_tokens,
                **synthetic,
            }
        )

    def expected(self, options: EagleOptions, target: Target) -> Expected:  # noqa: ARG002
        """Expect this head, at this depth."""
        return Expected(
            methods=(options.head,),
            drafter=options.model,
            longest_draft=options.num_speculative_tokens,
        )

    def confounds(self, options: EagleOptions, target: Target) -> tuple[Confound, ...]:  # noqa: ARG002
        """Name what an EAGLE head changes besides speculating."""
        return (
            Confound(
                fact="kv_cache_tokens",
                meaning="weights and KV of the head leave fewer KV tokens: favours the baseline "
                "when memory binds",
            ),
        )

    def counting(self, options: EagleOptions, target: Target) -> Counting | None:  # noqa: ARG002
        """Every decode step drafts; a draft may be cut at the budget or at the length limit."""
        return Counting(every_step_drafts=True, full_depth=False)

    def caveats(self, options: EagleOptions) -> tuple[str, ...]:
        """Tell synthetic acceptance."""
        if options.synthetic_acceptance_length is None:
            return ()
        return ("synthetic acceptance: tokens are accepted at random, so the output is wrong",)


@hookimpl
def specbench_methods() -> Iterable[Method[Any]]:
    """Give eagle."""
    yield Eagle()
