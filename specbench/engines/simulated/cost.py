"""What a step of the simulated server costs. Pure.

First form: a constant step, plus what drafting, verifying and prefilling add to it linearly.
"""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class CostModel:
    """Times of one simulated machine."""

    step_s: float
    """A step that decodes one token for one request: reading the weights."""
    token_s: float
    """Each further token in the batch, verified drafts included."""
    prefill_token_s: float
    """Each prompt token that enters in the step."""
    draft_token_s: float
    """Drafting one position, whatever the batch."""

    def duration_s(self, *, tokens: int, prefilled: int, draft_depth: int) -> float:
        """Give the duration of a step, in seconds.

        `tokens` counts one for each decoding request and one for each draft token verified.
        """
        return (
            self.step_s
            + self.token_s * max(tokens - 1, 0)
            + self.prefill_token_s * prefilled
            + self.draft_token_s * draft_depth
        )
