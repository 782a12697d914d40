"""A campaign with a sampling that is not greedy, from the document to page and numbers."""

from __future__ import annotations

import json

import attrs
import pytest

from specbench.report.content import read_content
from specbench.report.sampled import sampled_section
from specbench.report.tables.cells import cells_table
from specbench.store.store import opened, rows
from tests.conftest import SMALL, FinishedRun, run_cli, run_small

NGRAM = SMALL[SMALL.index('  - {name: "ngram') : SMALL.index("  - {name: eagle")]
SAMPLED = (
    SMALL.replace(NGRAM, "")
    .replace(
        "load: {", "prefix_cache: off\nsampling: [{name: t1, temperature: 1, seed: 4}]\nload: {"
    )
    .replace(
        "{concurrency: [1, 4], requests: {1: 6, 4: 12}}", "{concurrency: [8], requests: {8: 24}}"
    )
    .replace("blocks: 2, seed: 5, noise_floor: false", "blocks: 1, seed: 5, noise_floor: true")
    .replace("correctness: {workload: small.jsonl, captures: 2, concurrency: [2]}\n", "")
)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    done = run_small(tmp_path_factory.mktemp("sampled"), SAMPLED)
    assert done.result.exit_code == 0, done.result.output
    return done


def test_outputs_are_compared_with_those_of_a_second_baseline(ran: FinishedRun) -> None:
    with opened(ran.results) as connection:
        found = rows(connection, "select * from sampled_outputs order by respect")
    assert [row["respect"] for row in found] == ["first_token", "length", "ngram"]
    assert {(row["arm"], row["control"]) for row in found} == {
        ("eagle-k3", "repeat of the baseline")
    }
    # 6 prompts, two of four passes.
    assert {(row["outputs"], tuple(row["blocks"])) for row in found} == {(12, (1,))}
    # With a seed the simulated arms draw the very tokens of the second baseline, and the passes
    # between are other draws.
    assert all(row["arm_distance"] == row["control_distance"] > 0 for row in found)
    assert {row["outcome"] for row in found} == {"none shown"}


def test_page_and_numbers_tell_it_and_call_nothing_equal(ran: FinishedRun) -> None:
    told = json.loads(run_cli("report", "--results", ran.results, "--json").output)
    assert [row["p_adjusted"] for row in told["sampled_outputs"]] == [1.0, 1.0, 1.0]
    (page,) = (ran.folder / "reports").glob("*.html")
    text = page.read_text()
    section = text[text.index("<h2>Sampled outputs</h2>") : text.index("<h2>Every measured cell")]
    assert "pairs of tokens" in section
    assert "does not prove that there is none" in section
    assert "lossless" not in text


def test_without_a_prefix_cache_no_server_looks_anything_up(ran: FinishedRun) -> None:
    with opened(ran.results) as connection:
        cells = rows(connection, "select prefix_queries, prefix_hit_rate from cells")
        ruled = rows(connection, "select * from verdicts where gate = 'prefix_reuse'")
        launched = rows(connection, "select command from deployments")
        content = read_content(connection, None)
    assert [tuple(cell.values()) for cell in cells] == [(0, None)] * 3
    assert {(row["outcome"], row["observed"]) for row in ruled} == {("pass", "no look-ups")}
    assert all("--no-enable-prefix-caching" in row["command"] for row in launched)
    assert "<th>prefix hits</th>" in cells_table(content)


def test_a_difference_stands_out_and_what_is_undecided_says_why(ran: FinishedRun) -> None:
    with opened(ran.results) as connection:
        content = read_content(connection, None)
    differing, _, undecided = content.sampled_outputs
    differing = {**differing, "outcome": "differs", "p_adjusted": 0.004}
    undecided = {**undecided, "outcome": "undecided", "reason": "no <control>", "p_value": None}
    section = sampled_section(attrs.evolve(content, sampled_outputs=[differing, undecided]))
    assert "<td>0.004</td><td class='bad'>differs</td>" in section
    assert "<td class='unsure prose'>undecided: no &lt;control&gt;</td>" in section
    assert sampled_section(attrs.evolve(content, sampled_outputs=[])) == ""
