"""What a capture holds: greedy outputs of one server on the correctness prompts."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from specbench.facts import Candidates, RequestStatus


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
    deployment: str
    """What was launched for it. Two captures of one deployment share it."""
    number: int
    """1, 2: another number is another seeded order."""
    concurrency: int
    outputs: tuple[CapturedOutput, ...]

    @property
    def name(self) -> str:
        """How people name it."""
        return f"{self.deployment}, capture {self.number}"
