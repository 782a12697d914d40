from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import ExperimentError
from specbench.experiment.prompt import Message, Prompt
from specbench.workloads.read import digest, read_workload
from tests.conftest import ROOT

SHIPPED = sorted((ROOT / "workloads").glob("*.jsonl"))
GOOD = {
    "id": "a",
    "stratum": "s",
    "messages": [{"role": "user", "content": "x"}],
    "max_tokens": 4,
    "source": "t",
    "licence": "Apache-2.0",
}


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_workload_reads_and_is_licensed(path: Path) -> None:
    prompts = read_workload(path).prompts
    assert {prompt.licence for prompt in prompts} == {"Apache-2.0"}


def test_shipped_workloads_have_the_promised_sizes() -> None:
    counts = {path.stem: read_workload(path).prompts for path in SHIPPED}
    assert (len(counts["chat"]), len(counts["code"])) == (20, 20)
    assert len(counts["smoke"]) >= 6
    assert len({prompt.stratum for prompt in counts["smoke"]}) == 3


def write(path: Path, *lines: object) -> Path:
    path.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    )
    return path


def test_a_digest_ignores_layout_and_sees_content_and_order(tmp_path: Path) -> None:
    other = {**GOOD, "id": "b"}
    first = read_workload(write(tmp_path / "1", GOOD, other)).sha256
    spaced = read_workload(
        write(tmp_path / "2", json.dumps(dict(reversed(GOOD.items()))), "", other)
    )
    assert spaced.sha256 == first
    assert read_workload(write(tmp_path / "3", other, GOOD)).sha256 != first
    assert read_workload(write(tmp_path / "4", {**GOOD, "max_tokens": 5}, other)).sha256 != first


@given(
    st.lists(st.tuples(st.text(min_size=1, max_size=5), st.integers(1, 9)), min_size=1, max_size=4)
)
def test_a_digest_is_a_function_of_the_prompts(parts: list[tuple[str, int]]) -> None:
    prompts = tuple(
        Prompt(
            id=f"p{place}",
            stratum="s",
            messages=(Message(role="user", content=said),),
            max_tokens=cap,
            source="t",
            licence="x",
        )
        for place, (said, cap) in enumerate(parts)
    )
    assert digest(prompts) == digest(tuple(prompts))
    assert digest(prompts) != digest((*prompts, prompts[0]))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", ":2: no valid JSON"),
        ("[]", ":2: [] is not of type 'object'"),
        ({**GOOD, "id": "B C"}, ":2: id: 'B C' does not match"),
        ({**GOOD, "id": "b", "max_tokens": 0}, ":2: max_tokens: 0 is less than the minimum"),
        ({**GOOD, "id": "b", "messages": []}, ":2: messages: [] "),
        ({**GOOD, "id": "b", "extra": 1}, ":2: Additional properties"),
        (GOOD, ":2: id 'a' stands on line 1 too"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: object, said: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        read_workload(write(tmp_path / "w.jsonl", GOOD, line))
    assert said in str(caught.value)


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="no prompt in the file"):
        read_workload(write(tmp_path / "w.jsonl", ""))


def test_turns_or_messages_are_wanted_and_the_user_speaks_once(tmp_path: Path) -> None:
    bare = {key: value for key, value in GOOD.items() if key != "messages"}
    talk = {**bare, "turns": [{"user": "hello"}, {"user": "and now?", "assistant": "fixed"}]}
    content = read_workload(write(tmp_path / "talk", talk))
    assert [turn.user for turn in content.prompts[0].turns] == ["hello", "and now?"]
    assert content.prompts[0].opening() == (Message(role="user", content="hello"),)
    with pytest.raises(ExperimentError, match=r":1: neither messages nor turns"):
        read_workload(write(tmp_path / "bare", bare))
    with pytest.raises(ExperimentError, match=r":1: the user's words stand right before"):
        read_workload(write(tmp_path / "both", {**talk, "messages": GOOD["messages"]}))


def test_fields_that_are_left_out_are_no_part_of_a_digest(tmp_path: Path) -> None:
    plain = read_workload(write(tmp_path / "1", GOOD)).sha256
    full = {**GOOD, "arrival_s": None, "reference": ["an answer"]}
    assert read_workload(write(tmp_path / "2", {**GOOD, "arrival_s": None})).sha256 == plain
    assert read_workload(write(tmp_path / "3", full)).sha256 != plain
    # Worked out by hand from the canonical line.
    line = (
        '{"id":"a","licence":"Apache-2.0","max_tokens":4,'
        '"messages":[{"content":"x","role":"user"}],"source":"t","stratum":"s"}\n'
    )
    assert plain == hashlib.sha256(line.encode()).hexdigest()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"id": "a", "id": "b"}', "key 'id' stands twice"),
        (b'{"id": "\xff"}', "no UTF-8 text at byte 9"),
        (b'{"id": "\\ud800"}', "half of a surrogate pair"),
        (b'{"id": NaN}', "NaN is no number"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"id": ', "Expecting value at column"),
    ],
)
def test_a_line_that_could_mean_two_things_is_refused(
    tmp_path: Path, line: bytes, said: str
) -> None:
    path = tmp_path / "w.jsonl"
    path.write_bytes(json.dumps(GOOD).encode() + b"\n" + line + b"\n")
    with pytest.raises(ExperimentError, match=rf"w\.jsonl:2: .*{said}"):
        read_workload(path)


def test_line_separators_inside_a_text_end_no_line(tmp_path: Path) -> None:
    said = "one\u2028two\x85three"
    line = json.dumps({**GOOD, "messages": [{"role": "user", "content": said}]}, ensure_ascii=False)
    path = tmp_path / "w.jsonl"
    path.write_text(line, encoding="utf-8")
    assert read_workload(path).prompts[0].messages[0].content == said


def test_many_problems_are_counted_past_a_screen(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="and 10 more"):
        read_workload(write(tmp_path / "w", *["{"] * 60))
