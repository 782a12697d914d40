from __future__ import annotations

from typing import Any

import pytest

from specbench.facts import Audit, CounterDelta, Fact
from specbench.judge.cell_confounds import CellServing, cell_differences, graph_coverage
from tests.judge.test_confounds import h200

BASELINE, DRAFT = h200("baseline"), h200("draft-k3")


def delta(**changes: int) -> CounterDelta:
    counts = {"generation_tokens": 100, "preemptions": 0, "prefix_queries": 0, "prefix_hits": 0}
    nothing = dict.fromkeys(("drafts", "draft_tokens", "accepted_tokens", "accepted_per_position"))
    return CounterDelta(**(counts | changes), **nothing, engines=("0",))


def cell(**changes: Any) -> CellServing:
    given: dict[str, Any] = {
        "audit": BASELINE,
        "longest_draft": 0,
        "concurrency": 32,
        "running": 32.0,
        "delta": delta(),
        "held_tokens": 32 * 300,
        "prompts": frozenset(("a", "b")),
    }
    return CellServing(**(given | changes))


def differing(baseline: CellServing, arm: CellServing) -> dict[str, str]:
    return {item.fact: item.direction for item in cell_differences(baseline, arm)}


@pytest.mark.parametrize(
    ("concurrency", "draft", "said"),
    [
        # Captured graphs end at 512 tokens: 128 x 4 is the last that fits with k = 3.
        (128, 3, "covered (128 x 4 = 512 tokens, graphs to 512)"),
        (129, 3, "beyond the graphs (129 x 4 = 516 tokens, graphs to 512)"),
        (512, 0, "covered (512 x 1 = 512 tokens, graphs to 512)"),
        (513, 0, "beyond the graphs (513 x 1 = 513 tokens, graphs to 512)"),
        (85, 5, "covered (85 x 6 = 510 tokens, graphs to 512)"),
        (86, 5, "beyond the graphs (86 x 6 = 516 tokens, graphs to 512)"),
    ],
)
def test_graphs_cover_concurrency_times_k_plus_one_tokens(
    concurrency: int, draft: int, said: str
) -> None:
    state = graph_coverage(cell(concurrency=concurrency, longest_draft=draft))
    assert state is not None
    assert state.text == said


def test_only_a_cell_that_leaves_the_graphs_differs() -> None:
    small = (cell(), cell(audit=DRAFT, longest_draft=3))
    assert differing(*small) == {}
    large = (
        cell(concurrency=256, running=256.0),
        cell(audit=DRAFT, longest_draft=3, concurrency=256, running=256.0),
    )
    assert differing(*large) == {"graph_coverage": "favours baseline"}


def test_without_graphs_on_both_sides_nothing_differs() -> None:
    eager = Audit(facts=(Fact(name="cudagraph_mode", value="NONE", source=""),))
    assert differing(cell(audit=eager), cell(audit=eager, longest_draft=3, concurrency=32)) == {}


def test_sizes_that_one_side_does_not_state_leave_the_direction_unclear() -> None:
    silent = Audit(facts=())
    assert differing(cell(), cell(audit=silent)) == {
        "graph_coverage": "unclear",
        "kv_bound": "unclear",
    }


def test_running_below_asked_is_told_from_five_percent_on() -> None:
    assert differing(cell(), cell(running=30.5)) == {}
    assert differing(cell(), cell(running=30.3)) == {"running": "favours baseline"}
    assert differing(cell(running=20.0), cell()) == {"running": "favours speculation"}


def test_a_single_stream_that_samples_miss_now_and_then_is_no_difference() -> None:
    # Of an H200: 25 of 27 samples found the request running, of the arm's 24 all.
    missed = cell(concurrency=1, running=0.9259)
    assert differing(missed, cell(concurrency=1, running=1.0)) == {}


def test_without_an_asked_concurrency_the_running_sequences_fill_the_graphs() -> None:
    open_load = {"concurrency": None, "audit": DRAFT, "longest_draft": 3}
    state = graph_coverage(cell(running=128.4, **open_load))
    assert state is not None
    assert state.text == "beyond the graphs (129 x 4 = 516 tokens, graphs to 512)"
    assert graph_coverage(cell(running=None, **open_load)) is None
    assert "running" not in differing(
        cell(concurrency=None, running=1.0), cell(concurrency=None, running=9.0)
    )


def test_preemptions_and_prefix_hits_are_compared() -> None:
    assert differing(cell(), cell(delta=delta(preemptions=3))) == {
        "preemptions": "favours baseline"
    }
    ours = cell(delta=delta(prefix_queries=1000, prefix_hits=100))
    near = cell(delta=delta(prefix_queries=1000, prefix_hits=95))
    far = cell(delta=delta(prefix_queries=1000, prefix_hits=300))
    assert differing(ours, near) == {}
    (found,) = cell_differences(ours, far)
    assert (found.fact, found.direction) == ("prefix_hit_rate", "favours speculation")
    assert found.sentence == (
        "prefix cache: 10.0% of prompt tokens found in the baseline, 30.0% of prompt tokens found "
        "in the arm: this favours speculation"
    )


def test_a_kv_cache_that_the_requests_fill_is_told() -> None:
    """1,721,792 tokens of the baseline hold 1,600,000; the draft's 1,636,240 are 97.8% full."""
    asked = {"held_tokens": 1_600_000}
    assert differing(cell(**asked), cell(audit=DRAFT, longest_draft=3, **asked)) == {
        "kv_bound": "favours baseline"
    }
    sampled = cell(kv_usage=0.99)
    assert differing(cell(kv_usage=0.2), sampled) == {"kv_bound": "favours baseline"}


def test_another_set_of_prompts_is_told() -> None:
    assert differing(cell(), cell(prompts=frozenset("a"))) == {"prompts": "unclear"}
