"""What a capture holds: greedy outputs of one server on the correctness prompts."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from specbench.facts import Candidates, RequestStatus

TOP_LOGPROBS = 5
"""Likeliest tokens of each place that captures ask for."""
KEPT_NATS = 10.0
"""Those further behind the likeliest, e^10 times less likely, are not kept."""


@attrs.frozen(kw_only=True)
class CapturedOutput:
    """The greedy output on one prompt, failed ones too."""

    prompt_id: str
    status: RequestStatus = "ok"
    error: str | None = None
    text: str
    finish_reason: str | None = None
    token_ids: tuple[int, ...] | None = None
    completion_tokens: int | None = None
    """From the server's usage."""
    candidates: Sequence[Candidates] | None = None
    """Likely tokens of each place; None where nobody asked or the server told no ids."""


@attrs.frozen(kw_only=True)
class Capture:
    """One pass over the correctness prompts at one concurrency."""

    arm: str
    role: str = "arm"
    """baseline, noise_floor (the baseline launched again), equalised or arm."""
    deployment: str
    """What was launched for it. Two captures of one deployment share it."""
    block: int = 1
    number: int = 1
    """1, 2: another number is another seeded order."""
    concurrency: int = 1
    outputs: tuple[CapturedOutput, ...] = ()

    @property
    def name(self) -> str:
        """How people name it."""
        return f"{self.deployment} capture {self.number}"
