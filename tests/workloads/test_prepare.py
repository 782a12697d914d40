"""Small files of our own making, in the shapes that people have."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.errors import ExperimentError
from specbench.experiment.prompt import Message, Prompt, Turn
from specbench.workloads.documents import ESTIMATE, collected
from specbench.workloads.prepare import Prepared, Preparing, prepare, write_prepared
from specbench.workloads.read import digest, read_workload
from specbench.workloads.sample import stratified
from tests.conftest import run_cli

Rows = Sequence[object]
QUESTIONS: Rows = [
    {"question_id": 81, "category": "Story Telling", "turns": ["Tell one.", "Shorter."]},
    {"question_id": 82, "category": "maths", "turns": ["What is 2 + 2?"], "reference": ["4"]},
]
HUMANEVAL: Rows = [
    {
        "task_id": "Own/0",
        "prompt": "def double(x):\n",
        "canonical_solution": "    return 2 * x\n",
        "test": "",
        "entry_point": "double",
    }
]
SHAREGPT: Rows = [
    {
        "id": "talk",
        "conversations": [
            {"from": "human", "value": "Hello?"},
            {"from": "gpt", "value": "Yes."},
            {"from": "human", "value": "Good."},
            {"from": "gpt", "value": "Indeed."},
        ],
    }
]
OPENAI: Rows = [
    {
        "custom_id": "r-1",
        "body": {
            "messages": [
                {"role": "system", "content": "Be short."},
                {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
            ],
            "max_tokens": 7,
        },
    }
]
CUSTOM: Rows = [{"prompt": "Name a bird.", "output_tokens": 5}]
DOCUMENTS: Rows = [{"id": f"d{n}", "document": f"Paragraph {n}. " * 10} for n in range(3)]


def lines(path: Path, rows: Rows) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def gzipped(path: Path, rows: Rows) -> Path:
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def array(path: Path, rows: Rows) -> Path:
    path.write_text(json.dumps(rows, indent=1))
    return path


def made(path: Path, **how: object) -> Prepared:
    return prepare(path, Preparing(**how))  # type: ignore[arg-type]


def test_questions_become_conversations_of_their_category(tmp_path: Path) -> None:
    found = made(lines(tmp_path / "question.jsonl", QUESTIONS))
    story, maths = found.prompts
    assert found.format == "question"
    assert (story.id, story.stratum) == ("story-telling-81", "story-telling")
    assert story.turns == (Turn(user="Tell one."), Turn(user="Shorter."))
    assert maths.messages == (Message(role="user", content="What is 2 + 2?"),)
    assert maths.reference == ("4",)
    assert maths.source == f"question.jsonl@{found.source_sha256[:12]}#82"
    assert maths.licence == "NOASSERTION"
    first = made(lines(tmp_path / "question.jsonl", QUESTIONS), turns="first").prompts[0]
    assert (first.turns, first.messages) == ((), (Message(role="user", content="Tell one."),))


@pytest.mark.parametrize(
    ("name", "write"), [("h.jsonl", lines), ("h.jsonl.gz", gzipped), ("h.json", array)]
)
def test_humaneval_is_wrapped_in_a_recorded_template(
    tmp_path: Path, name: str, write: Callable[[Path, Rows], Path]
) -> None:
    found = made(write(tmp_path / name, HUMANEVAL))
    (prompt,) = found.prompts
    assert (found.format, prompt.id, prompt.stratum) == ("humaneval", "own-0", "humaneval")
    assert prompt.messages[0].content == found.template.replace("{prompt}", "def double(x):\n")
    assert prompt.reference == ("    return 2 * x\n",)
    bare = made(tmp_path / name, template="{prompt}").prompts[0]
    assert bare.messages[0].content == "def double(x):\n"


def test_sharegpt_answers_are_a_script_only_when_asked(tmp_path: Path) -> None:
    path = array(tmp_path / "s.json", SHAREGPT)
    (fed,) = made(path).prompts
    assert fed.turns == (Turn(user="Hello?"), Turn(user="Good."))
    (script,) = made(path, turns="script").prompts
    assert script.turns == (Turn(user="Hello?", assistant="Yes."), Turn(user="Good."))
    assert script.reference == ("Indeed.",)


def test_openai_rows_keep_system_words_and_cap(tmp_path: Path) -> None:
    (prompt,) = made(lines(tmp_path / "o.jsonl", OPENAI)).prompts
    assert [m.role for m in prompt.messages] == ["system", "user"]
    assert (prompt.id, prompt.max_tokens) == ("r-1", 7)


def test_settings_of_rows_are_told_when_they_are_not_kept(tmp_path: Path) -> None:
    said = {"role": "user", "content": "Hello"}
    rows = [{"messages": [said], "temperature": 0.2}, {"messages": [said], "temperature": 1}]
    notes = made(lines(tmp_path / "o.jsonl", rows)).notes
    assert notes == ("2 rows set temperature, which is not kept",)


def test_custom_rows_are_named_by_their_line(tmp_path: Path) -> None:
    (prompt,) = made(lines(tmp_path / "c.jsonl", CUSTOM)).prompts
    assert (prompt.id, prompt.max_tokens, prompt.stratum) == ("custom-1", 5, "custom")
    assert made(tmp_path / "c.jsonl", max_tokens=9).prompts[0].max_tokens == 9


def test_a_table_keeps_when_its_rows_arrived(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("prompt,time\nSay hi,1700000000.25\nGo,1700000003\nWhy,\n")
    prompts = made(tmp_path / "t.csv", columns={"arrival_s": "time"}).prompts
    assert [p.arrival_s for p in prompts] == [1700000000.25, 1700000003.0, None]
    (tmp_path / "t.csv").write_text("prompt,time\nSay hi,noon\nGo,-1\n")
    mapped = ("--column", "arrival_s=time")
    refused = run_cli("workload", "prepare", tmp_path / "t.csv", "-o", tmp_path / "o", *mapped)
    assert "t.csv:2: an arrival at 'noon', which is no number" in str(refused.exception)
    assert "t.csv:3: an arrival at '-1'" in str(refused.exception)


def test_tables_have_mapped_columns(tmp_path: Path) -> None:
    rows = [
        {"key": "a", "ask": 'Say "hi",\nplease', "kind": "x"},
        {"key": "b", "ask": "Go", "kind": "y"},
    ]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "t.parquet")
    columns = {"prompt": "ask", "id": "key", "stratum": "kind"}
    from_csv, from_parquet = (
        made(tmp_path / name, columns=columns).prompts for name in ("t.csv", "t.parquet")
    )
    assert [(p.id, p.stratum, p.messages[0].content) for p in from_csv] == [
        ("a", "x", 'Say "hi",\nplease'),
        ("b", "y", "Go"),
    ]
    assert [p.messages for p in from_parquet] == [p.messages for p in from_csv]
    unmapped = made(tmp_path / "t.csv")
    assert "t.csv:2: no column 'of a prompt' among key, ask, kind" in str(unmapped.bad[0])


def test_documents_are_joined_and_cut_to_the_wanted_length(tmp_path: Path) -> None:
    # Each is 140 characters: 34 tokens at 4 characters, two of them 70.
    found = made(lines(tmp_path / "d.jsonl", DOCUMENTS), tokens=(40, 60))
    (prompt,) = found.prompts
    text = prompt.messages[0].content.removeprefix(found.template.replace("{prompt}", ""))
    assert (found.format, prompt.id, prompt.stratum) == ("documents", "d0-d1", "summary")
    assert prompt.source.endswith("#d0+d1")
    assert text.endswith("Paragraph 1.")
    assert 200 <= len(text) <= 240
    assert any("left out, under 40 tokens together: d2" in note for note in found.notes)
    assert any("d0: cut to" in note for note in found.notes)


def test_a_folder_of_texts_has_one_digest_whatever_the_order_of_its_files(tmp_path: Path) -> None:
    found = []
    for name, order in (("one", "abc"), ("two", "cab")):
        (tmp_path / name / "docs" / "sub").mkdir(parents=True)
        for letter in order:
            (tmp_path / name / "docs" / "sub" / f"{letter}.txt").write_text(f"{letter} word. " * 30)
        found.append(made(tmp_path / name / "docs", tokens=(10, 100)))
    assert [p.id for p in found[0].prompts] == ["sub-a", "sub-b", "sub-c"]
    assert digest(found[0].prompts) == digest(found[1].prompts)
    (tmp_path / "two" / "docs" / "x.pdf").write_bytes(b"%PDF")
    assert "x.pdf: no text file" in str(made(tmp_path / "two" / "docs", tokens=(10, 100)).bad[0])


@given(
    sizes=st.lists(st.integers(1, 300), max_size=12),
    least=st.integers(1, 60),
    more=st.integers(0, 60),
)
def test_collected_texts_keep_their_bounds_and_lose_no_document(
    sizes: list[int], least: int, more: int
) -> None:
    documents = [(str(n), "word " * size) for n, size in enumerate(sizes)]
    found = list(collected(documents, least, least + more, ESTIMATE))
    assert [name for text in found for name in text.ids] == [name for name, _ in documents]
    assert all(text.tokens <= least + more for text in found)
    assert all(text.cut or text.tokens >= least for text in found[:-1])


def test_a_sample_is_stratified_seeded_and_in_order() -> None:
    def prompt(name: str, stratum: str) -> Prompt:
        return Prompt(id=name, stratum=stratum, max_tokens=1, source="t", licence="x")

    prompts = [prompt(f"p{n:02}", "ab"[n % 2]) for n in range(40)] + [prompt("c", "c")]
    taken = stratified(prompts, 5, 7)
    assert [sum(p.stratum == name for p in taken) for name in "abc"] == [5, 5, 1]
    assert list(taken) == [p for p in prompts if p in taken]
    assert stratified(prompts[::-1], 5, 7)[::-1] == taken
    assert stratified(prompts, 5, 8) != taken


def cut(path: Path) -> Path:
    content = path.read_bytes()
    path.write_bytes(content[:-6])
    return path


@pytest.mark.parametrize(
    ("name", "write", "rows", "said"),
    [
        ("q.jsonl", lines, QUESTIONS, r"q\.jsonl:2: no valid JSON"),
        ("h.jsonl", lines, HUMANEVAL * 2, r"h\.jsonl:2: no valid JSON"),
        ("c.jsonl", lines, CUSTOM * 3, r"c\.jsonl:3: no valid JSON"),
        ("o.jsonl", lines, OPENAI * 2, r"o\.jsonl:2: no valid JSON"),
        ("d.jsonl", lines, DOCUMENTS, r"d\.jsonl:3: no valid JSON"),
        ("h.jsonl.gz", gzipped, HUMANEVAL * 2, r"h\.jsonl\.gz:3: the compressed file is cut"),
        ("s.json", array, SHAREGPT, r"s\.json:\d+: no valid JSON: .*begins on line 2"),
    ],
)
def test_a_cut_copy_is_named_by_its_line(
    tmp_path: Path, name: str, write: Callable[[Path, Rows], Path], rows: Rows, said: str
) -> None:
    path = cut(write(tmp_path / name, rows))
    result = run_cli("workload", "prepare", path, "-o", tmp_path / "out.jsonl")
    assert isinstance(result.exception, ExperimentError)
    assert re.search(said, str(result.exception)), str(result.exception)
    assert not (tmp_path / "out.jsonl").exists()


def table(path: Path, rows: Rows) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "prompt"])
        writer.writerows([n, "Say\nit"] for n, _ in enumerate(rows))
    return path


@pytest.mark.parametrize(
    ("name", "write", "rows", "line"),
    [
        ("q.jsonl", lines, QUESTIONS, 2),
        ("h.jsonl", lines, HUMANEVAL * 3, 2),
        ("c.jsonl", lines, CUSTOM * 3, 1),
        ("o.jsonl", lines, OPENAI * 3, 2),
        ("d.jsonl", lines, DOCUMENTS, 3),
        ("s.json", array, SHAREGPT, 7),
        # Each row of this table takes two lines.
        ("t.csv", table, CUSTOM * 9, 8),
    ],
)
def test_a_byte_that_is_no_text_is_named_by_its_line(
    tmp_path: Path, name: str, write: Callable[[Path, Rows], Path], rows: Rows, line: int
) -> None:
    path = write(tmp_path / name, rows)
    content = path.read_bytes().split(b"\n")
    content[line - 1] = content[line - 1][:-3] + b"\xff" + content[line - 1][-2:]
    path.write_bytes(b"\n".join(content))
    result = run_cli("workload", "prepare", path, "-o", tmp_path / "out.jsonl")
    assert isinstance(result.exception, ExperimentError)
    assert f"{path}:{line}: no UTF-8 text" in str(result.exception)
    assert not (tmp_path / "out.jsonl").exists()


def test_cut_tables_are_named_by_their_row(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('id,prompt\na,Go\nb,"half of a')
    assert "t.csv:3: no valid CSV" in str(made(tmp_path / "t.csv").bad[0])
    (tmp_path / "u.csv").write_text("id,prompt\na,Go\nb\n")
    assert "u.csv:3: the row has not the 2 cells" in str(made(tmp_path / "u.csv").bad[0])
    pq.write_table(pa.Table.from_pylist([{"prompt": "Go"}]), tmp_path / "t.parquet")
    with pytest.raises(ExperimentError, match=r"t\.parquet: row 1: no whole Parquet file"):
        made(cut(tmp_path / "t.parquet"))


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([QUESTIONS[0], {"question_id": 3, "turns": []}], "turns are no list of texts"),
        ([QUESTIONS[0], {"turns": ["data must be fetched from the owner"]}], "a placeholder, not"),
        ([QUESTIONS[0], ["x"]], "the row is no object"),
        ([SHAREGPT[0], {"conversations": [{"from": "gpt", "value": "I begin"}]}], "not the user"),
        ([SHAREGPT[0], {"conversations": [{"from": "human", "value": " "}]}], "has no text"),
        ([OPENAI[0], {"messages": [{"role": "tool", "content": "x"}]}], "to speak is tool"),
        (
            [OPENAI[0], {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}],
            "a message holds image_url, not text",
        ),
        ([CUSTOM[0], {"prompt": "x", "output_tokens": 0}], "an output length of 0"),
    ],
)
def test_foreign_rows_are_reported_and_left_out_only_when_asked(
    tmp_path: Path, rows: Rows, said: str
) -> None:
    path, out = lines(tmp_path / "f.jsonl", rows), tmp_path / "out.jsonl"
    refused = run_cli("workload", "prepare", path, "-o", out)
    assert isinstance(refused.exception, ExperimentError)
    assert f"{path}:2: " in str(refused.exception)
    assert said in str(refused.exception)
    done = run_cli("workload", "prepare", path, "-o", out, "--skip-bad")
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "out.jsonl.prepared.json").read_text())
    assert said in record["left_out"][0]
    assert record["sha256"] == read_workload(out).sha256


@pytest.mark.parametrize(
    "row",
    [
        {"timestamp": 0, "input_length": 9, "output_length": 3, "hash_ids": [1]},
        {"TIMESTAMP": "x", "ContextTokens": 9, "GeneratedTokens": 3},
        {"Timestamp": 1, "Request tokens": 9, "Response tokens": 3},
    ],
)
def test_traces_of_lengths_are_refused_with_the_reason(tmp_path: Path, row: object) -> None:
    with pytest.raises(ExperimentError, match=r"t\.jsonl:1: .*no valid acceptance"):
        made(lines(tmp_path / "t.jsonl", [row]))


def test_a_file_of_one_repeated_text_is_refused(tmp_path: Path) -> None:
    rows = [{"question_id": n, "turns": ["Ask the owner."]} for n in range(6)]
    with pytest.raises(ExperimentError, match="6 of 6 prompts are the same text"):
        made(lines(tmp_path / "q.jsonl", rows))


def test_an_unknown_shape_says_what_can_be_named(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=r"u\.jsonl:1: no known format.*--format: question"):
        made(lines(tmp_path / "u.jsonl", [{"some": "thing"}]))


def test_preparing_writes_no_file_of_somebody_else_over(tmp_path: Path) -> None:
    found, how = made(lines(tmp_path / "c.jsonl", CUSTOM)), Preparing()
    first = write_prepared(found, how, tmp_path / "out.jsonl")
    assert write_prepared(found, how, tmp_path / "out.jsonl") == first
    with pytest.raises(ExperimentError, match="no preparation made it"):
        write_prepared(found, how, tmp_path / "c.jsonl")


def test_equal_row_ids_become_prompts_of_their_own(tmp_path: Path) -> None:
    rows = [
        {"id": name, "prompt": f"Say {n}"} for n, name in enumerate(["A b", "a/b", "a-b-2", "a b"])
    ]
    names = [p.id for p in made(lines(tmp_path / "c.jsonl", rows)).prompts]
    assert names == ["a-b", "a-b-2", "a-b-2-2", "a-b-3"]


def test_a_damaged_compressed_file_gives_no_row_even_when_bad_ones_are_left_out(
    tmp_path: Path,
) -> None:
    path = gzipped(tmp_path / "h.jsonl.gz", HUMANEVAL)
    content = bytearray(path.read_bytes())
    content[-5] ^= 0xFF
    path.write_bytes(content)
    result = run_cli("workload", "prepare", path, "-o", tmp_path / "out.jsonl", "--skip-bad")
    assert isinstance(result.exception, ExperimentError)
    assert "cut or damaged" in str(result.exception)
    assert not (tmp_path / "out.jsonl").exists()
