from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.engines.simulated.cost import CostModel, Load
from specbench.engines.simulated.presets import H200_6B, PRESETS

COST = CostModel(
    weights_s=2e-3,
    token_s=20e-6,
    context_token_s=1e-8,
    step_s=1e-3,
    request_s=10e-6,
    draft_position_s=0.5e-3,
    draft_token_s=5e-6,
)


def test_a_step_that_only_decodes_waits_for_the_weights() -> None:
    load = Load(tokens=8, requests=8, context_tokens=1000, draft_depth=0, drafted=0)
    # 1 ms + max(2 ms, 0.16 ms) + 0.01 ms + 0.08 ms
    assert COST.duration_s(load) == pytest.approx(3.09e-3)


def test_a_step_with_much_to_compute_waits_for_the_arithmetic() -> None:
    load = Load(tokens=1000, requests=0, context_tokens=0, draft_depth=0, drafted=0)
    assert COST.duration_s(load) == pytest.approx(1e-3 + 20e-3)


def test_drafting_pays_for_each_position_and_each_token() -> None:
    load = Load(tokens=8, requests=2, context_tokens=0, draft_depth=3, drafted=6)
    # 1 ms + 2 ms + 0.02 ms + 3 x 0.5 ms + 6 x 0.005 ms
    assert COST.duration_s(load) == pytest.approx(4.55e-3)


@given(
    st.builds(
        Load,
        tokens=st.integers(0, 9999),
        requests=st.integers(0, 512),
        context_tokens=st.integers(0, 10**6),
        draft_depth=st.integers(0, 9),
        drafted=st.integers(0, 999),
    ),
    st.sampled_from(["tokens", "requests", "context_tokens", "draft_depth", "drafted"]),
)
def test_more_of_anything_never_costs_less(load: Load, what: str) -> None:
    more = attrs.evolve(load, **{what: getattr(load, what) + 1})
    assert COST.duration_s(more) >= COST.duration_s(load)


def test_the_weights_of_the_fitted_preset_take_what_its_memory_allows() -> None:
    cost = H200_6B.cost(method="none", async_scheduling=True)
    # 5.771e9 parameters x 2 bytes / (85% of 4.8 TB/s)
    assert cost.weights_s == pytest.approx(2.829e-3, rel=1e-3)
    # 2 operations a parameter / 740 TFLOP/s
    assert cost.token_s == pytest.approx(15.6e-6, rel=1e-3)


@pytest.mark.parametrize("name", PRESETS)
def test_speed_divides_every_time(name: str) -> None:
    preset = PRESETS[name]
    slow = attrs.astuple(preset.cost(method="eagle", async_scheduling=False))
    fast = attrs.astuple(preset.cost(method="eagle", async_scheduling=False, speed=4))
    assert fast == pytest.approx([value / 4 for value in slow])


@pytest.mark.parametrize("name", PRESETS)
def test_losing_asynchronous_scheduling_costs_time_and_a_drafter_costs_memory(name: str) -> None:
    preset = PRESETS[name]
    load = Load(tokens=1, requests=1, context_tokens=0, draft_depth=0, drafted=0)
    plain = preset.cost(method="none", async_scheduling=True).duration_s(load)
    assert preset.cost(method="none", async_scheduling=False).duration_s(load) > plain
    assert preset.kv_tokens("draft_model", 0.85) < preset.kv_tokens("none", 0.85)
