"""Conversations and prefix-cache policies from the document to the index, on the simulated engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from specbench.errors import ExperimentError
from specbench.experiment.read import ReadExperiment, read_experiment
from specbench.methods import Method
from specbench.plan import plan
from specbench.planned_cell import mean_max_tokens
from specbench.store.store import opened, rows
from tests.conftest import ROOT, SMALL, run_small

TALKS = SMALL.replace("{path: small.jsonl}", "{path: talks.jsonl}").replace(
    "{concurrency: [1, 4], requests: {1: 6, 4: 12}}", "{concurrency: [2], requests: {2: 4}}"
)
NGRAM = (
    '  - {name: "ngram-k{num_speculative_tokens}", method: ngram, num_speculative_tokens: [3]}\n'
)

LONG = "and of all that people have ever thought or sung of them, in prose, in verse, in jest " * 2


def write_talks(folder: Path) -> None:
    lines = [
        {
            "id": f"t{place}",
            "stratum": "talk",
            # Longer than two blocks of 16 tokens: a cache keeps whole blocks alone.
            "turns": [{"user": f"say something of {thing} {LONG}"}, {"user": "and shorter"}],
            "max_tokens": 6,
            "source": "test",
            "licence": "Apache-2.0",
        }
        for place, thing in enumerate(("rivers", "clocks"))
    ]
    (folder / "talks.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_each_turn_is_a_row_of_the_index_and_a_run_of_warm_caches_is_filled(tmp_path: Path) -> None:
    write_talks(tmp_path)
    document = TALKS.replace("blocks: 2", "blocks: 1").replace(NGRAM, "")
    done = run_small(tmp_path, document.replace("design:", "prefix_cache: warm\ndesign:"))
    assert done.result.exit_code == 0, done.result.output
    with opened(done.results) as connection:
        found = rows(connection, "select * from requests order by cell_id, index")
        cells = rows(connection, "select * from cells")
        verdicts = rows(connection, "select * from verdicts where gate = 'prefix_reuse'")
    first = [r for r in found if r["cell_id"] == found[0]["cell_id"]]
    assert [(r["index"], r["turn"], r["pass_index"]) for r in first] == [
        (place, place % 2, place // 4) for place in range(8)
    ]
    assert all(
        b["prompt_tokens"] > a["prompt_tokens"]
        for a, b in zip(first[::2], first[1::2], strict=True)
    )
    # The first turns of two passes hit what was filled, the later ones what their first turn left.
    assert all(0.5 < cell["prefix_hit_rate"] < 1 for cell in cells)
    assert [v["outcome"] for v in verdicts] == ["pass", "pass"]
    assert len(cells) == 2
    kept = next(done.run.glob("*/talk-greedy-c2/cell.json"))
    assert json.loads(kept.read_text())["filled"] == 2
    table = pq.read_table(kept.parent / "requests.parquet", columns=["turn"])
    assert table["turn"].to_pylist() == [0, 1] * 4


def test_an_estimate_counts_every_turn(
    tmp_path: Path, read_small: Callable[..., ReadExperiment]
) -> None:
    write_talks(tmp_path)
    # Two turns of 6 tokens each.
    assert mean_max_tokens(read_small(TALKS), "talk") == 12


def test_captures_of_conversations_are_refused(
    tmp_path: Path, read_small: Callable[..., ReadExperiment]
) -> None:
    write_talks(tmp_path)
    with pytest.raises(ExperimentError, match=r"talks\.jsonl has turns: captures compare single"):
        read_small(TALKS.replace("{workload: small.jsonl", "{workload: talks.jsonl"))


def vllm_document(policy: str, flags: str) -> str:
    text = (ROOT / "specs/vllm-cpu.yaml").read_text()
    text = text.replace("../workloads", str(ROOT / "workloads")).replace(
        "flags: {", f"flags: {{{flags}"
    )
    return text.replace("design:", f"prefix_cache: {policy}\ndesign:")


@pytest.mark.parametrize(("policy", "off"), [("cell", False), ("warm", False), ("off", True)])
def test_off_launches_every_arm_without_a_prefix_cache(
    tmp_path: Path,
    methods: Mapping[str, Method[Any]],
    monkeypatch: pytest.MonkeyPatch,
    policy: str,
    off: bool,
) -> None:
    monkeypatch.setenv("SPECBENCH_MODELS", "/models")
    monkeypatch.setenv("SPECBENCH_VLLM_PYTHON", "/venv/bin/python")
    (tmp_path / "x.yaml").write_text(vllm_document(policy, ""))
    planned = plan(read_experiment(tmp_path / "x.yaml", methods), methods)
    flags = [("--no-enable-prefix-caching" in arm.command.argv) for arm in planned.arms]
    assert flags == [off] * len(planned.arms)


@pytest.mark.parametrize(("policy", "value"), [("off", "true"), ("warm", "false")])
def test_a_flag_that_contradicts_the_policy_is_refused(
    tmp_path: Path, methods: Mapping[str, Method[Any]], policy: str, value: str
) -> None:
    (tmp_path / "x.yaml").write_text(vllm_document(policy, f"enable-prefix-caching: {value}, "))
    with pytest.raises(
        ExperimentError, match=f"and prefix_cache is '{policy}'; leave the flag out"
    ):
        read_experiment(tmp_path / "x.yaml", methods)
