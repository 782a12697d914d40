from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.analysis.holm import holm

P = st.floats(0, 1, allow_nan=False)


def test_adjusted_p_values_are_those_worked_out_by_hand() -> None:
    # Sorted: .005 x 4, .01 x 3, .03 x 2, .04 x 1; the last must not fall below the one before.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))


def test_one_comparison_is_not_adjusted() -> None:
    assert holm([0.03]) == (0.03,)


def test_a_comparison_without_a_p_value_still_counts() -> None:
    assert holm([0.02, None, None]) == (0.06, None, None)


@given(st.lists(P, min_size=1, max_size=8))
def test_what_is_adjusted_to_5_percent_is_what_the_step_down_procedure_rejects(
    p_values: list[float],
) -> None:
    rejected = set()
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    for rank, place in enumerate(order):
        if (len(p_values) - rank) * p_values[place] > 0.05:
            break
        rejected.add(place)
    found = {place for place, p in enumerate(holm(p_values)) if p is not None and p <= 0.05}
    assert found == rejected
