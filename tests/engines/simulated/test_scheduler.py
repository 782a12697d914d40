from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.engines.simulated.cost import CostModel
from specbench.engines.simulated.drafting import Chained, Drafting, Tier
from specbench.engines.simulated.prefix_cache import PrefixCache
from specbench.engines.simulated.scheduler import Request, Rules, State, Step, step
from specbench.engines.simulated.script import Script, blocks
from specbench.engines.simulated.text import Deviation, Habits, Text

COST = CostModel(
    weights_s=0.01,
    token_s=0.0001,
    context_token_s=0.0,
    step_s=0.0,
    request_s=0.001,
    draft_position_s=0.002,
    draft_token_s=0.0,
)
SILENT = Habits(reuse=0.0, stay=0.0, own=0.0, words=("a",))
PLAIN = Drafting()


def request(
    name: str,
    *,
    prompt: int = 20,
    length: int = 10,
    accepted: int = 0,
    salt: str = "",
    depth: int = 3,
) -> Request:
    tokens = tuple(f"{name[0]}{place}" for place in range(prompt))
    script = Script(
        prompt=tokens,
        answer=Text(tokens, habits=SILENT, key=name, deviation=Deviation()),
        length=length,
        finish_reason="length",
        offers=Chained(depth, bytes([accepted]) * length),
    )
    return Request(request_id=name, script=script, blocks=blocks(tokens, salt))


def rules(
    drafting: Drafting = PLAIN, *, seats: int = 8, budget: int = 10_000, kv_tokens: int = 100_000
) -> Rules:
    return Rules(
        drafting=drafting,
        max_num_seqs=seats,
        max_scheduled_tokens=budget,
        kv_blocks=kv_tokens // 16,
    )


def waiting(*requests: Request, cache: int = 0) -> State:
    state = State(cache=PrefixCache(capacity=cache))
    for one in requests:
        state = state.arrived(one)
    return state


def played(state: State, how: Rules) -> list[Step]:
    steps = []
    while not state.idle:
        steps.append(step(state, rules=how, cost=COST))
        state = steps[-1].state
        assert len(steps) < 10_000
    return steps


def emitted(steps: Sequence[Step]) -> dict[str, list[int]]:
    found = defaultdict(list)
    for taken in steps:
        for emission in taken.emissions():
            found[emission.request.request_id].append(emission.tokens)
    return dict(found)


def test_plain_decoding_takes_a_prefill_step_and_a_step_a_token() -> None:
    steps = played(waiting(request("a")), rules())
    assert emitted(steps) == {"a": [1] * 10}
    assert steps[0].prefilled == 20
    # The prefill decodes nothing yet; each later step pays for one request.
    assert sum(taken.duration_s for taken in steps) == pytest.approx(0.01 + 9 * 0.011)


def test_accepted_drafts_come_in_one_step_and_the_last_is_cut_after_counting() -> None:
    steps = played(waiting(request("a", accepted=3)), rules(Drafting(method="eagle", depth=3)))
    assert emitted(steps) == {"a": [1, 4, 4, 1]}
    (last,) = steps[-1].emissions()
    assert (last.tokens, last.drafted, last.accepted, last.ended) == (1, 3, 3, True)
    assert steps[1].duration_s == pytest.approx(0.01 + 0.001 + 3 * 0.002)


def test_a_full_server_lets_requests_wait() -> None:
    taken = step(waiting(*map(request, "abc")), rules=rules(seats=2), cost=COST)
    assert [w.request.request_id for w in taken.state.waiting] == ["c"]
    assert [r.request_id for r in taken.state.running] == ["a", "b"]


def test_a_long_prompt_enters_in_chunks_while_others_go_on_decoding() -> None:
    state = step(waiting(request("a")), rules=rules(budget=30), cost=COST).state
    steps = played(state.arrived(request("b", prompt=70)), rules(budget=30))
    # a decodes with one token of the budget of 30, so b gets 29, 29 and 12 of its 70.
    assert [taken.prefilled for taken in steps[:4]] == [29, 29, 12, 0]
    assert emitted(steps[:3]) == {"a": [1, 1, 1], "b": [1]}


def test_the_budget_cuts_drafts_of_the_last_in_the_batch() -> None:
    how = Drafting(method="eagle", depth=3)
    state = step(waiting(*map(request, "ab")), rules=rules(how), cost=COST).state
    taken = step(state, rules=rules(how, budget=6), cost=COST)
    assert [e.drafted for e in taken.emissions()] == [3, 1]


def test_without_kv_the_youngest_is_preempted_and_computed_anew() -> None:
    # Each request needs 2 blocks at first and 3 from its 13th token on; there are 5.
    requests = [request(name, prompt=20, length=20) for name in "ab"]
    steps = played(waiting(*requests), rules(kv_tokens=5 * 16))
    assert sum(taken.preempted for taken in steps) == 1
    assert {name: sum(tokens) for name, tokens in emitted(steps).items()} == {"a": 20, "b": 20}
    again = [one for taken in steps for one in taken.admissions if one.again]
    assert [one.request.request_id for one in again] == ["b"]
    # Prompt and what was generated before are computed once more.
    assert sum(taken.prefilled for taken in steps) > 20 + 20 + 20


def test_a_warm_prefix_is_not_computed_again_but_its_last_token_is() -> None:
    first = played(waiting(request("a", prompt=64), cache=100), rules())
    held = first[-1].state
    again = step(held.arrived(request("a2", prompt=64)), rules=rules(), cost=COST)
    # All 4 blocks are held, but whole blocks short of the last token are 3.
    assert [one.cached_tokens for one in again.admissions] == [48]
    assert again.prefilled == 16
    salted = held.arrived(request("a3", prompt=64, salt="other"))
    assert step(salted, rules=rules(), cost=COST).admissions[0].cached_tokens == 0


def test_the_batch_size_decides_the_depth_where_tiers_are_given() -> None:
    how = Drafting(method="eagle", depth=3, tiers=(Tier(batch_size=2, depth=1),))
    state = step(waiting(*map(request, "ab")), rules=rules(how), cost=COST).state
    taken = step(state, rules=rules(how), cost=COST)
    assert [e.drafted for e in taken.emissions()] == [1, 1]


def test_a_request_whose_client_went_away_is_forgotten() -> None:
    state = step(waiting(*map(request, "abc")), rules=rules(seats=2), cost=COST).state
    state = state.without({"a", "c"})
    assert [r.request_id for r in state.running] == ["b"]
    assert state.waiting == ()


def test_a_step_leaves_the_state_before_it_as_it_was() -> None:
    state = step(waiting(*map(request, "ab"), cache=50), rules=rules(), cost=COST).state
    one, other = (step(state, rules=rules(), cost=COST) for _ in range(2))
    assert one.duration_s == other.duration_s
    assert [e[1:] for e in one.emissions()] == [e[1:] for e in other.emissions()]


@given(
    lengths=st.lists(st.tuples(st.integers(1, 60), st.integers(1, 30)), min_size=1, max_size=8),
    accepted=st.integers(0, 3),
    depth=st.integers(0, 3),
    seats=st.integers(1, 4),
    budget=st.integers(5, 64),
    kv_blocks=st.integers(6, 20),
)
def test_every_request_gets_exactly_its_length_whatever_the_limits(
    lengths: list[tuple[int, int]],
    accepted: int,
    depth: int,
    seats: int,
    budget: int,
    kv_blocks: int,
) -> None:
    requests = [
        request(
            f"{place}", prompt=prompt, length=length, accepted=min(accepted, depth), depth=depth
        )
        for place, (prompt, length) in enumerate(lengths)
    ]
    how = rules(
        Drafting(method="eagle" if depth else "none", depth=depth),
        seats=seats,
        budget=budget,
        kv_tokens=kv_blocks * 16,
    )
    steps = played(waiting(*requests, cache=kv_blocks), how)
    assert {name: sum(tokens) for name, tokens in emitted(steps).items()} == {
        one.request_id: one.script.length for one in requests
    }
    for taken in steps:
        assert len(taken.batch) <= seats
        assert taken.prefilled + int((taken.drafted + (taken.tokens > 0)).sum()) <= budget + seats
        assert sum(-(-int(held) // 16) for held in taken.state.context) <= kv_blocks + seats
