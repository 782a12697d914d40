"""Continuous batching of the simulated server: (state) -> (state, what the step emitted). Pure."""

from __future__ import annotations

import attrs

from specbench.engines.simulated.cost import CostModel
from specbench.engines.simulated.speculation import Drafting, drafted_and_accepted


@attrs.frozen(kw_only=True)
class Sequence:
    """One request inside the server."""

    request_id: str
    prompt: str
    prompt_tokens: int
    is_code: bool
    length: int
    """Output tokens that it will have."""
    finish_reason: str
    generated: int = 0


@attrs.frozen(kw_only=True)
class State:
    """Everything that the scheduler knows."""

    waiting: tuple[Sequence, ...] = ()
    running: tuple[Sequence, ...] = ()


@attrs.frozen(kw_only=True)
class Emission:
    """What one request got out of one step."""

    request_id: str
    first: int
    """Output position of the first token."""
    tokens: int
    drafted: int
    accepted: int
    """Before the cut at the end of the output, as vLLM counts."""
    finish_reason: str | None


@attrs.frozen(kw_only=True)
class Step:
    """One step: how long it takes, and what stands when it is over."""

    duration_s: float
    state: State
    emissions: tuple[Emission, ...]


def step(
    state: State, *, cost: CostModel, drafting: Drafting, max_num_seqs: int, seed: int
) -> Step:
    """Run one engine step: admit what fits, prefill it, decode the rest with its drafts."""
    room = max_num_seqs - len(state.running)
    admitted, waiting = state.waiting[:room], state.waiting[room:]
    emissions = [_emit(sequence, drafted=0, accepted=0) for sequence in admitted]
    for sequence in state.running:
        drafted, accepted = drafted_and_accepted(
            drafting,
            seed=seed,
            prompt=sequence.prompt,
            position=sequence.generated,
            is_code=sequence.is_code,
        )
        emissions.append(_emit(sequence, drafted=drafted, accepted=accepted))
    grown = {emission.request_id: emission for emission in emissions}
    running = tuple(
        attrs.evolve(sequence, generated=sequence.generated + grown[sequence.request_id].tokens)
        for sequence in (*state.running, *admitted)
        if grown[sequence.request_id].finish_reason is None
    )
    drafts = [emission.drafted for emission in emissions]
    duration_s = cost.duration_s(
        tokens=len(state.running) + len(admitted) + sum(drafts),
        prefilled=sum(sequence.prompt_tokens for sequence in admitted),
        draft_depth=max(drafts, default=0),
    )
    return Step(
        duration_s=duration_s,
        state=State(waiting=waiting, running=running),
        emissions=tuple(emissions),
    )


def _emit(sequence: Sequence, *, drafted: int, accepted: int) -> Emission:
    tokens = min(1 + accepted, sequence.length - sequence.generated)
    ended = sequence.generated + tokens == sequence.length
    return Emission(
        request_id=sequence.request_id,
        first=sequence.generated,
        tokens=tokens,
        drafted=drafted,
        accepted=accepted,
        finish_reason=sequence.finish_reason if ended else None,
    )
