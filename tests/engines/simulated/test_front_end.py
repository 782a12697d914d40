from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specbench.engines.simulated.front_end import FrontEnd


def test_what_comes_together_passes_together_once_all_of_it_is_done() -> None:
    front: FrontEnd[str] = FrontEnd()
    for name in "abc":
        front = front.arrived(name, cost_s=2.0, now_s=10.0)
    # a is taken up alone and done at 12; b and c are the next batch, done at 16.
    front, passed = front.passed(11.9)
    assert passed == ()
    front, passed = front.passed(12.0)
    assert passed == ("a",)
    front, passed = front.passed(15.9)
    assert passed == ()
    front, passed = front.passed(16.0)
    assert passed == ("b", "c")


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 1)), min_size=1, max_size=20))
def test_every_request_passes_once_in_the_order_of_arrival(
    arrivals: list[tuple[float, float]],
) -> None:
    front: FrontEnd[int] = FrontEnd()
    now_s, seen = 0.0, []
    for place, (gap_s, cost_s) in enumerate(arrivals):
        now_s += gap_s
        front, passed = front.passed(now_s)
        seen += passed
        front = front.arrived(place, cost_s=cost_s, now_s=now_s)
    _, passed = front.passed(now_s + sum(cost_s for _, cost_s in arrivals) + 1)
    assert [*seen, *passed] == list(range(len(arrivals)))
