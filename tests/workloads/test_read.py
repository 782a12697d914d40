from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import ExperimentError
from specbench.experiment.model import Message, Prompt
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
