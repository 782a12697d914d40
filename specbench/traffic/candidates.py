"""An event's log-probabilities to the likely token ids of each place. Pure.

Written by id (`return_tokens_as_token_ids`, read in vLLM 0.11 to 0.33), because two tokens may have
one text. Of a speculative step an event carries those of all its tokens (seen on 0.32.0).
"""

from __future__ import annotations

from specbench.capture_facts import KEPT_NATS
from specbench.facts import Candidates
from specbench.traffic.server_events import Logprobs, TokenLogprobs

ID_PREFIX = "token_id:"
DIGITS = 3
"""Of a nat: bfloat16 logits of usual size are 0.06 or 0.125 apart."""


def candidates(said: Logprobs) -> list[Candidates]:
    """Give the likely token ids of each place, the likeliest first."""
    return [_of_place(place) for place in said.content or ()]


def _of_place(place: TokenLogprobs) -> Candidates:
    found = {
        int(token.token.removeprefix(ID_PREFIX)): token.logprob
        for token in place.top_logprobs
        if token.token.startswith(ID_PREFIX)
    }
    best = max(found.values(), default=0.0)
    behind = sorted((round(best - logprob, DIGITS), token) for token, logprob in found.items())
    return tuple((token, nats) for nats, token in behind if nats <= KEPT_NATS)
