from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from specbench.errors import ExperimentError
from specbench.experiment.identity import resolve
from specbench.experiment.model import GeneratedWorkload
from specbench.experiment.read import ReadExperiment
from specbench.workloads.generate import generated
from specbench.workloads.read import read_workload
from tests.conftest import SMALL, run_small

ASKED = "{generate: summarize-long, seed: 4, tokens: [300, 900], prompts: 3, max_tokens: 20}"
WITH_REPORTS = SMALL.replace("{path: small.jsonl}", ASKED)


def asked(**changes: object) -> GeneratedWorkload:
    fields: dict = {"generate": "summarize-long", "seed": 4, "tokens": (2000, 6000), "prompts": 3}
    return GeneratedWorkload(**(fields | changes))


def test_texts_are_those_of_their_seed_on_every_machine() -> None:
    assert generated(asked()) == generated(asked())
    assert generated(asked(seed=5)).sha256 != generated(asked()).sha256
    # Written down once: another value on another Python is a changed workload.
    assert (
        generated(asked()).sha256
        == "e5b98425328688598711cce393a5d9da7aebacd9c1c93a1a32e798ae3ce090eb"
    )


def test_lengths_go_evenly_over_the_range() -> None:
    lengths = [len(p.messages[0].content) / 4 for p in generated(asked()).prompts]
    assert lengths == pytest.approx([2000, 4000, 6000], rel=0.1)


def test_a_report_speaks_of_what_it_said_before_in_the_same_words() -> None:
    text = generated(asked()).prompts[-1].messages[0].content
    findings = dict(re.findall(r"^Finding of chapter (\d+): (.*)$", text, re.MULTILINE))
    assert len(findings) > 10
    quoted = re.findall(r"chapter (\d+)(?: found|, where we wrote)?: (the .*)$", text, re.MULTILINE)
    repeated = [(number, said) for number, said in quoted if findings.get(number) == said]
    assert len(repeated) > len(findings)
    paragraphs = [p for p in text.split("\n\n") if len(p) > 200]
    assert len(set(paragraphs)) == len(paragraphs)


def test_an_experiment_names_the_digest_and_its_run_keeps_the_text(tmp_path: Path) -> None:
    short = WITH_REPORTS.replace("blocks: 2", "blocks: 1").replace("[1, 4]", "[1]")
    short = re.sub(r"requests: .*}}}", "requests: {1: 3}}}", short)
    done = run_small(tmp_path, short.replace("captures: 2", "captures: 1"), "--raw-only")
    assert done.result.exit_code == 0, done.result.output
    kept = read_workload(done.run / "summarize-long-4.jsonl")
    assert kept.sha256 in (done.run / "provenance.json").read_text()
    assert kept.sha256 in (done.run / "plan.json").read_text()


def test_a_generated_workload_is_part_of_the_identity(
    read_small: Callable[..., ReadExperiment],
) -> None:
    first, other = (
        resolve(read_small(WITH_REPORTS.replace("seed: 4", f"seed: {seed}")))["workloads"]
        for seed in (4, 5)
    )
    assert first != other


def test_a_range_that_is_none_is_refused_with_its_line(
    read_small: Callable[..., ReadExperiment],
) -> None:
    with pytest.raises(ExperimentError, match=r"small\.yaml:8: workloads\[0\]\.tokens: .*\[900, 3"):
        read_small(WITH_REPORTS.replace("[300, 900]", "[900, 300]"))
    with pytest.raises(ExperimentError, match=r"small\.yaml:8: workloads\[0\]"):
        read_small(WITH_REPORTS.replace("seed: 4, ", ""))
