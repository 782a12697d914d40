from __future__ import annotations

import os
from pathlib import Path

import attrs
import pytest

from specbench.experiment.prompt import Prompt
from specbench.workloads.describe import describe
from specbench.workloads.prompt_tokens import Encode, encoder, load_tokenizer
from specbench.workloads.read import read_workload
from tests.conftest import ROOT

LEAST = {"chat": 60, "code": 60, "correctness": 50}


def prompts(name: str) -> tuple[Prompt, ...]:
    return read_workload(ROOT / f"workloads/{name}/{name}.jsonl").prompts


def table_row(name: str, encode: Encode | None = None) -> str:
    (item,) = describe(prompts(name), encode).strata
    lengths, caps = item.lengths, item.max_tokens
    values = (
        f"`{name}`",
        item.prompts,
        item.turns,
        lengths.least,
        f"{lengths.median:g}",
        f"{lengths.p95:.4g}",
        lengths.most,
        f"{caps.median:g}",
        caps.most,
    )
    return f"| {' | '.join(map(str, values))} |"


@pytest.mark.parametrize("name", LEAST)
def test_a_built_in_workload_is_large_licensed_and_has_the_digest_that_it_states(name: str) -> None:
    content = read_workload(ROOT / f"workloads/{name}/{name}.jsonl")
    assert len(content.prompts) >= LEAST[name]
    assert {(p.stratum, p.licence, p.source) for p in content.prompts} == {
        (name, "Apache-2.0", "specbench")
    }
    said = (ROOT / f"workloads/{name}/README.md").read_text()
    assert content.sha256 in said
    assert "Apache-2.0" in said


@pytest.mark.parametrize("name", ["python-source", "captures"])
def test_pieces_of_source_files_are_of_many_files_and_have_the_digest_that_is_stated(
    name: str,
) -> None:
    folder = ROOT / "workloads/python-source"
    content = read_workload(folder / f"{name}.jsonl")
    assert content.sha256 in (folder / "README.md").read_text()
    assert {prompt.licence for prompt in content.prompts} == {"PSF-2.0"}
    files = [prompt.source.split(",")[0] for prompt in content.prompts]
    assert len(set(files)) == len(files) >= 24


@pytest.mark.parametrize("name", LEAST)
def test_the_length_tables_of_the_docs_are_measured(name: str) -> None:
    assert table_row(name) in (ROOT / "docs/workloads.md").read_text()


@pytest.mark.vllm
@pytest.mark.parametrize("name", LEAST)
def test_the_token_tables_of_the_docs_are_those_of_the_tiny_tokenizer(name: str) -> None:
    encode = encoder(load_tokenizer(Path(os.environ["SPECBENCH_MODELS"]) / "target"))
    assert table_row(name, encode) in (ROOT / "docs/workloads.md").read_text()


def test_no_two_prompts_are_alike() -> None:
    every = [p for name in LEAST for p in prompts(name)]
    assert describe(every, None).duplicates == ()
    openings = [" ".join(_last(p).split()[:6]) for p in every]
    alike = {text for text in openings if openings.count(text) > 1}
    # The words before a given piece of code are the only ones that recur.
    assert all(text.startswith(("Continue this", "Write a Python function")) for text in alike)


def test_chat_holds_conversations_that_are_served_turn_by_turn() -> None:
    talks = [p for p in prompts("chat") if p.turns]
    assert len(talks) >= 8
    assert all(turn.assistant is None for p in talks for turn in p.turns)


@pytest.mark.parametrize("name", LEAST)
def test_the_small_files_are_the_first_prompts_with_another_cap(name: str) -> None:
    small = read_workload(ROOT / f"workloads/{name}.jsonl").prompts
    whole = prompts(name)[: len(small)]
    assert [attrs.evolve(p, max_tokens=1) for p in small] == [
        attrs.evolve(p, max_tokens=1) for p in whole
    ]


def _last(prompt: Prompt) -> str:
    return prompt.opening()[-1].content
