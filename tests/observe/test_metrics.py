from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.observe.metrics import gauge_total, parse
from tests.conftest import CAPTURES

LINES = [
    'vllm:generation_tokens_total{engine="0",model_name="m"} 5.0',
    'vllm:generation_tokens_total{engine="1",model_name="m"} 7.0',
    'vllm:num_requests_running{engine="0",model_name="m"} 2.0',
    'vllm:num_requests_running{engine="1",model_name="m"} 1.0',
    'vllm:generation_tokens_created{engine="0",model_name="m"} 1.7e9',
    "process_start_time_seconds 1.7e9",
    "# a comment",
    "",
]


@given(st.permutations(LINES))
def test_the_order_of_lines_does_not_matter(lines: list[str]) -> None:
    assert parse("\n".join(lines) + "\n") == parse("\n".join(LINES) + "\n")


def test_the_order_of_labels_does_not_matter() -> None:
    turned = 'vllm:generation_tokens_total{model_name="m",engine="0"} 5.0\n'
    assert parse(turned).series == parse(LINES[0] + "\n").series


def test_a_gauge_of_several_engines_is_summed_and_an_absent_one_is_none() -> None:
    snapshot = parse("\n".join(LINES) + "\n")
    assert gauge_total(snapshot, "vllm:num_requests_running") == 3
    assert gauge_total(snapshot, "vllm:num_requests_waiting") is None


def test_one_series_with_two_values_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        parse("a_total 1\na_total 2\n")


@pytest.mark.parametrize(
    "path", sorted(CAPTURES.glob("*/*/metrics-after.txt")), ids=lambda p: p.parent.name
)
def test_real_expositions_are_read_whole(path) -> None:
    text = path.read_text()
    samples = [line for line in text.splitlines() if line and not line.startswith("#")]
    assert len(parse(text).series) == len(samples)
