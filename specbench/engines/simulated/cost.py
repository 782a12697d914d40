"""What a step of the simulated server costs: a roofline with overheads. Pure.

A step reads the weights once or computes its tokens, whichever takes longer; reads the KV of every
running request; pays the host for the step and for each request in it; and drafts one position
after another. All times are those of the whole tensor-parallel group.
"""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Load:
    """What one step does."""

    tokens: int
    """Tokens that pass through the target: decoded, verified and prefilled."""
    requests: int
    """Requests that decode in it."""
    context_tokens: int
    """Tokens whose KV is read."""
    draft_depth: int
    """Longest draft verified in it."""
    drafted: int
    """Tokens drafted for it, over all requests."""


@attrs.frozen(kw_only=True)
class CostModel:
    """Times of one deployment, in seconds."""

    weights_s: float
    """Reading the target's weights once."""
    token_s: float
    """Arithmetic for one token."""
    context_token_s: float
    """Reading the KV of one token."""
    step_s: float
    """Overhead of a step that no arithmetic hides."""
    request_s: float
    """Overhead of each decoding request in a step."""
    draft_position_s: float
    """Drafting one position, whatever the batch: the drafter's weights and launches."""
    draft_token_s: float
    """Each token drafted."""
    front_token_s: float = 0.0
    """Tokenizing one prompt token in the API process, before the engine."""

    def duration_s(self, load: Load) -> float:
        """Give how long a step takes."""
        return (
            self.step_s
            + max(self.weights_s, self.token_s * load.tokens)
            + self.context_token_s * load.context_tokens
            + self.request_s * load.requests
            + self.draft_position_s * load.draft_depth
            + self.draft_token_s * load.drafted
        )
