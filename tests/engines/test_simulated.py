from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.engines import ENGINES
from specbench.engines.simulated import text
from specbench.engines.simulated.cost import CostModel
from specbench.engines.simulated.scheduler import Sequence, State, step
from specbench.engines.simulated.speculation import Drafting, drafted_and_accepted, drafting
from specbench.experiment.model import Target
from specbench.methods import Launch

COST = CostModel(step_s=0.01, token_s=0.001, prefill_token_s=0.0001, draft_token_s=0.002)
PLAIN = drafting("none", 0)
ALWAYS = Drafting(method="eagle", depth=3, first=1.0)
NEVER = Drafting(method="eagle", depth=3, first=0.0)


def sequence(name: str, length: int = 10) -> Sequence:
    return Sequence(
        request_id=name,
        prompt=name,
        prompt_tokens=20,
        is_code=False,
        length=length,
        finish_reason="length",
    )


def played(state: State, how: Drafting, seats: int = 8) -> tuple[float, dict[str, list[int]]]:
    """Play a state to its end: the time it took, and tokens of each step by request."""
    total, emitted = 0.0, {}
    while state.waiting or state.running:
        taken = step(state, cost=COST, drafting=how, max_num_seqs=seats, seed=1)
        total += taken.duration_s
        for emission in taken.emissions:
            emitted.setdefault(emission.request_id, []).append(emission.tokens)
        state = taken.state
    return total, emitted


def test_plain_decoding_costs_a_prefill_step_and_a_step_a_token() -> None:
    took, emitted = played(State(waiting=(sequence("a"),)), PLAIN)
    assert emitted == {"a": [1] * 10}
    assert took == pytest.approx(10 * 0.01 + 20 * 0.0001)


def test_a_batch_pays_for_each_further_token() -> None:
    taken = step(
        State(running=(sequence("a"), sequence("b"))),
        cost=COST,
        drafting=PLAIN,
        max_num_seqs=8,
        seed=1,
    )
    assert taken.duration_s == pytest.approx(0.011)


def test_accepted_drafts_come_in_one_step_and_are_paid() -> None:
    took, emitted = played(State(waiting=(sequence("a"),)), ALWAYS)
    # One token of the prefill, then 4 + 4 + 1: the last step is cut at the length.
    assert emitted == {"a": [1, 4, 4, 1]}
    assert took == pytest.approx(0.012 + 3 * (0.01 + 3 * 0.001 + 3 * 0.002))


def test_counts_precede_the_cut_at_the_end_as_vllms_do() -> None:
    state = State(running=(attrs.evolve(sequence("a"), generated=9),))
    (emission,) = step(state, cost=COST, drafting=ALWAYS, max_num_seqs=8, seed=1).emissions
    assert (emission.tokens, emission.drafted, emission.accepted) == (1, 3, 3)
    assert emission.finish_reason == "length"


def test_rejected_drafts_cost_and_give_one_token() -> None:
    assert played(State(waiting=(sequence("a"),)), NEVER)[1] == {"a": [1] * 10}


def test_a_full_server_lets_requests_wait() -> None:
    state = State(waiting=tuple(sequence(name) for name in "abc"))
    taken = step(state, cost=COST, drafting=PLAIN, max_num_seqs=2, seed=1)
    assert [s.request_id for s in taken.state.waiting] == ["c"]
    assert len(taken.state.running) == 2


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    seats=st.integers(1, 4),
    depth=st.integers(0, 5),
    method=st.sampled_from(["ngram", "eagle3", "draft_model", "unheard-of"]),
)
def test_every_request_gets_exactly_its_length_whatever_the_method(
    lengths: list[int], seats: int, depth: int, method: str
) -> None:
    waiting = tuple(sequence(str(place), length) for place, length in enumerate(lengths))
    _, emitted = played(State(waiting=waiting), drafting(method, depth), seats)
    assert {name: sum(tokens) for name, tokens in emitted.items()} == {
        str(place): length for place, length in enumerate(lengths)
    }


@given(position=st.integers(0, 500), depth=st.integers(1, 8))
def test_acceptance_is_seeded_and_within_the_draft(position: int, depth: int) -> None:
    how = drafting("eagle3", depth)
    first = drafted_and_accepted(how, seed=3, prompt="p", position=position, is_code=False)
    assert first == drafted_and_accepted(how, seed=3, prompt="p", position=position, is_code=False)
    assert first[0] == depth
    assert 0 <= first[1] <= depth


def test_acceptance_rates_are_those_of_the_chain() -> None:
    how = Drafting(method="x", depth=2, first=0.6, decay=0.5)
    found = [
        drafted_and_accepted(how, seed=1, prompt="p", position=place, is_code=False)[1]
        for place in range(20_000)
    ]
    # P(at least 1) = 0.6 and P(2) = 0.6 x 0.3, each within 5 standard errors.
    assert sum(count >= 1 for count in found) / 20_000 == pytest.approx(0.6, abs=0.018)
    assert sum(count == 2 for count in found) / 20_000 == pytest.approx(0.18, abs=0.014)


def test_code_is_recognised() -> None:
    assert text.is_code("Continue:\ndef add(a, b):")
    assert not text.is_code("Tell me of the sea.")


def test_unknown_flags_of_the_simulated_engine_are_refused() -> None:
    problems = ENGINES["simulated"].check(
        Target(engine="simulated", model="toy", flags={"gpu-memory-utilization": 0.9}), Launch()
    )
    assert "no flag 'gpu-memory-utilization'" in problems[0].message
