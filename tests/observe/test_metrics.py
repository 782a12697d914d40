from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

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


def read_by_the_library(text: str) -> dict[object, float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): float(sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize(
    "path", sorted(CAPTURES.glob("*/*/metrics-after.txt")), ids=lambda p: p.parent.name
)
def test_a_page_of_known_names_is_read_as_the_library_reads_it(path) -> None:
    # The page before it has the same names and other values.
    for page in (path.with_name("metrics-before.txt"), path):
        assert parse(page.read_text()).series == read_by_the_library(page.read_text())


VALUES = st.one_of(
    st.floats(allow_nan=False).map(repr), st.integers().map(str), st.sampled_from(["+Inf", "-Inf"])
)
NAMES = st.text(
    st.characters(blacklist_categories=("Cs",), blacklist_characters='\\"\n'), max_size=6
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "b_total"]), NAMES, VALUES, st.sampled_from(["", " 5"])
        ),
        max_size=4,
        unique_by=lambda row: row[:2],
    ),
    st.sampled_from(["counter", "gauge"]),
)
def test_any_page_is_read_as_the_library_reads_it(rows, kind: str) -> None:
    told = [f'{name}{{at="{label}"}} {value}{instant}' for name, label, value, instant in rows]
    text = "\n".join([f"# TYPE a {kind}", *told, ""])
    assert parse(text).series == read_by_the_library(text)
    assert parse(text).series == read_by_the_library(text)


@pytest.mark.parametrize(
    "line", ["a", "a b", 'a{b="c" 1', 'a{b="c 1', "a 1_0", "a 1 x", "é 1", "{} 1"]
)
def test_what_is_no_sample_is_refused_where_the_library_refuses_it(line: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the library's words, or none
        read_by_the_library(f"{line}\n")
    with pytest.raises(ValueError):  # noqa: PT011
        parse(f"{line}\n")
