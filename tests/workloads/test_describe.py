from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import ExperimentError
from specbench.experiment.prompt import Message, Prompt, Turn
from specbench.workloads.describe import describe, reused_tokens
from specbench.workloads.overlap import overlap
from specbench.workloads.prompt_tokens import encoder, load_tokenizer
from tests.conftest import run_cli


def prompt(name: str, said: str, **changes: object) -> Prompt:
    fields: dict = {
        "id": name,
        "stratum": "s",
        "messages": (Message(role="user", content=said),),
        "max_tokens": 9,
        "source": "t",
        "licence": "Apache-2.0",
    }
    return Prompt(**(fields | changes))


def characters(prompts: Sequence[Prompt]) -> Iterator[array[int]]:
    """A tokenizer whose tokens are characters."""
    return (array("I", map(ord, p.opening()[-1].content)) for p in prompts)


def test_lengths_are_order_statistics_of_each_stratum() -> None:
    found = describe(
        [
            *(prompt(f"p{n}", "x" * n) for n in (1, 2, 3, 4, 100)),
            prompt("q", "yy", stratum="other", max_tokens=30),
        ],
        characters,
    )
    first, other = found.strata
    assert found.unit == "tokens"
    assert (first.lengths.least, first.lengths.median, first.lengths.most) == (1, 3, 100)
    # 0.95 x 4 = 3.8: 4 + 0.8 x (100 - 4).
    assert first.lengths.p95 == pytest.approx(80.8)
    assert (other.stratum, other.prompts, other.max_tokens.most) == ("other", 1, 30)


def test_without_tokens_words_are_counted_and_no_reuse_is_claimed() -> None:
    found = describe([prompt("p", "three words here")], None)
    assert found.unit == "words"
    assert found.strata[0].lengths.most == 3
    assert found.strata[0].reuse_cell is found.strata[0].reuse_warm is None


def test_shared_beginnings_are_expected_hits_of_whole_blocks() -> None:
    shared = "s" * 40
    found = describe([prompt("a", shared + "1" * 24), prompt("b", shared + "2" * 24)], characters)
    # Of 128 tokens the second prompt finds two whole blocks of its 40 shared ones.
    assert found.strata[0].reuse_cell == 32 / 128
    # Warm: three blocks of each 64, as the last token is always computed.
    assert found.strata[0].reuse_warm == 2 * 48 / 128


@given(st.lists(st.lists(st.integers(0, 1), max_size=70), max_size=6))
def test_reuse_is_what_a_cache_of_any_size_hits_in_order(prompts: list[list[int]]) -> None:
    cached: set[tuple[int, ...]] = set()
    hits = 0
    for ids in prompts:
        looked = [tuple(ids[:end]) for end in range(16, max(len(ids) - 1, 0) + 1, 16)]
        hits += 16 * sum(beginning in cached for beginning in looked)
        cached |= set(looked)
    assert reused_tokens([array("I", ids).tobytes() for ids in prompts]) == hits


def test_duplicates_differ_in_case_and_space_only() -> None:
    talk = {"messages": (), "turns": (Turn(user="Say  it"), Turn(user="again"))}
    found = describe(
        [prompt("a", "Say it"), prompt("b", "say\nit "), prompt("c", "", **talk)], None
    )
    assert found.duplicates == (("a", "b"),)
    assert found.strata[0].turns == 4


def test_overlap_finds_equal_texts_and_long_runs(tmp_path: Path) -> None:
    words = [f"word{n}" for n in range(60)]
    prompts = [
        prompt("same", "Why is the sky blue?"),
        prompt("run", " ".join(words)),
        prompt("own", "nothing of this stands there"),
    ]
    training = tmp_path / "train.jsonl"
    rows = [{"conversations": [{"value": "why is the sky blue"}]}, {"t": " ".join(words[20:45])}]
    training.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = overlap(prompts, training)
    assert (found.same, found.shared) == (("same",), ("run",))
    training.write_text(json.dumps(rows))
    assert overlap(prompts, training) == found
    training.write_text("Why is the sky blue\n")
    assert overlap(prompts, training).same == ("same",)


def test_a_tokenizer_of_the_target_counts(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({"[UNK]": 0, "red": 1, "box": 2}, unk_token="[UNK]")
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    encode = encoder(load_tokenizer(tmp_path))
    prompts = [prompt(f"p{n}", "red box " * n) for n in range(1, 131)]
    assert [len(ids) for ids in encode(prompts)] == [2 * n for n in range(1, 131)]
    assert next(encode(prompts)).tolist() == [1, 2]


def test_a_tokenizer_that_is_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=r"tokenizer\.json: no tokenizer can be read"):
        load_tokenizer(tmp_path)


def test_the_command_says_lengths_duplicates_and_digest(tmp_path: Path) -> None:
    line = {
        "id": "a",
        "stratum": "s",
        "messages": [{"role": "user", "content": "one two three"}],
        "max_tokens": 4,
        "source": "t",
        "licence": "Apache-2.0",
    }
    path = tmp_path / "w.jsonl"
    path.write_text(json.dumps(line) + "\n" + json.dumps({**line, "id": "b"}))
    said = run_cli("workload", "describe", path, "--training", path).output
    assert "s                           2        2        3        3        3        3" in said
    assert "the same: 2: a, b" in said
    assert "in the training set: 2: a, b" in said
    facts = json.loads(run_cli("workload", "describe", path, "--json").output)
    assert facts["strata"][0]["lengths"]["most"] == 3
