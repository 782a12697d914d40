from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from specbench.experiment.yaml_text import parse

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.from_regex(r"[a-z]{1,6}", fullmatch=True), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES)
def test_json_is_yaml_and_keeps_its_values(value: object) -> None:
    document = parse(json.dumps(value))
    assert document.problems == ()
    assert document.value == value


def test_every_value_knows_its_line() -> None:
    document = parse("a: 1\nb:\n  - x\n  - {c: 2}\n")
    assert [
        document.line(path) for path in ((), ("a",), ("b", 0), ("b", 1, "c"), ("b", 1, "missing"))
    ] == [1, 1, 3, 4, 4]


def test_scalars_are_yaml_1_2() -> None:
    assert parse("a: no\nb: 0o10\nc: 1_000\nd: 2026-11-29\ne: ~\nf: 1.5e3\n").value == {
        "a": "no",
        "b": 8,
        "c": 1000,
        "d": "2026-11-29",
        "e": None,
        "f": 1500.0,
    }


def test_a_bomb_of_aliases_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    document = parse("\n".join(lines))
    assert "more than 10,000 values" in document.problems[0][1].message


def test_a_cyclic_alias_ends() -> None:
    assert parse("a: &a [*a]\n").problems
