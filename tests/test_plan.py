from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.experiment.read import ReadExperiment
from specbench.methods import Method
from specbench.order import williams_square
from specbench.plan import Plan, estimate, plan, requests_of_cell
from specbench.plan_text import plan_text
from tests.conftest import SMALL


@pytest.fixture
def planned(
    read_small: Callable[..., ReadExperiment], methods: Mapping[str, Method[Any]]
) -> Callable[..., Plan]:
    def make(document: str = SMALL, **options: Any) -> Plan:
        return plan(read_small(document), methods, **options)

    return make


@given(st.integers(2, 9))
def test_a_williams_square_balances_who_follows_whom(size: int) -> None:
    rows = williams_square(size)
    assert len(rows) == (size if size % 2 == 0 else 2 * size)
    assert all(sorted(row) == list(range(size)) for row in rows)
    follows = Counter((a, b) for row in rows for a, b in itertools.pairwise(row))
    assert set(follows.values()) == {1 if size % 2 == 0 else 2}
    assert len(follows) == size * (size - 1)


def test_a_block_launches_every_arm_once(planned: Callable[..., Plan]) -> None:
    for order in ("counterbalanced", "random"):
        made = planned(SMALL.replace("seed: 5", f"seed: 5, order: {order}"))
        for block in (1, 2):
            names = [d.arm.name for d in made.deployments if d.block == block]
            assert sorted(names) == ["baseline", "eagle-k3", "ngram-k3"]


def test_the_noise_floor_is_the_baseline_launched_again(planned: Callable[..., Plan]) -> None:
    made = planned(SMALL.replace("noise_floor: false", "noise_floor: true"))
    arms = {arm.name: arm for arm in made.arms}
    assert arms["baseline-repeat"].role == "noise_floor"
    assert arms["baseline-repeat"].command == arms["baseline"].command
    assert len(made.deployments) == 8


def test_cells_have_one_order_in_a_block_for_all_arms(planned: Callable[..., Plan]) -> None:
    made = planned(SMALL.replace("[1, 4]", "[1, 2, 3, 4, 5]").replace("blocks: 2", "blocks: 6"))
    orders = {
        block: {tuple(cell.name for cell in d.cells) for d in made.deployments if d.block == block}
        for block in range(1, 7)
    }
    assert all(len(found) == 1 for found in orders.values())
    assert len(set.union(*orders.values())) > 1


def test_more_blocks_keep_the_order_of_the_earlier_ones(planned: Callable[..., Plan]) -> None:
    few, many = planned(), planned(blocks=5)
    assert [d.name for d in many.deployments][: len(few.deployments)] == [
        d.name for d in few.deployments
    ]


def test_requests_default_to_whole_passes(read_small: Callable[..., ReadExperiment]) -> None:
    read = read_small(SMALL.replace(", requests: {1: 6, 4: 12}", ""))
    # 6 prompts: 64 needs 11 passes, and 10 x 8 = 80 needs 14.
    assert requests_of_cell(read, "mixed", 1) == 66
    assert requests_of_cell(read, "mixed", 8) == 84
    assert requests_of_cell(read_small(), "mixed", 4) == 12


def test_a_plan_for_an_unknown_version_says_so(planned: Callable[..., Plan]) -> None:
    vllm = SMALL.replace(
        "engine: simulated, model: toy, flags: {step-ms: 1, token-us: 20, seed: 3}",
        "engine: vllm, model: /m",
    )
    assert "newest" in planned(vllm).notes[0]
    found = planned(vllm, engine_version="0.32.0+cpu")
    assert found.notes == ()
    assert found.read.experiment.target.version == "0.32.0+cpu"


def test_the_text_of_a_plan_names_commands_order_and_cells(planned: Callable[..., Plan]) -> None:
    text = plan_text(planned())
    assert "--port '{port}'" in text
    assert '"method": "ngram", "num_speculative_tokens": 3' in text
    assert "mixed-greedy-c4 (12)" in text
    assert "6 launches, 12 cells" in text


def test_an_estimate_tells_its_assumption(planned: Callable[..., Plan]) -> None:
    guess = estimate(planned())
    assert guess.seconds > 6
    assert "1 s a launch" in guess.assumption


def test_planning_is_pure(planned: Callable[..., Plan]) -> None:
    first = planned()
    assert attrs.evolve(planned(), read=first.read) == first
