"""Digests that every interpreter must give: fixed, over texts and numbers that are easy to get wrong.

CPython 3.11.7 and the WebAssembly builds of 3.12.7, 3.13.2 and 3.14.2 gave the same. A digest that
changes here changes for everybody who has written one into an experiment.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from specbench.experiment.model import GeneratedWorkload
from specbench.workloads.generate import generated
from specbench.workloads.prepare import Preparing, prepare
from specbench.workloads.read import digest, read_workload

PORTABLE = Path(__file__).parent / "portable"
WORKLOAD = "c0886364ec230c343952679c3c7a2aa7b3e4e5b7073b6f93e7db8c7f47911085"
PREPARED = "a2a321c2574c7e3bab5b8f5303fc258691a9ac49dfe4c1fdf42b723e750280fb"
GENERATED = "d31bafffc9bb5ecd79beebf37eff5bf7f46dfeb0ac2d99c1df341749b5596029"


def test_a_workload_of_all_planes_floats_and_nested_content_has_its_digest() -> None:
    assert read_workload(PORTABLE / "workload.jsonl").sha256 == WORKLOAD


def test_canonical_lines_are_those_written_by_hand() -> None:
    prompts = read_workload(PORTABLE / "workload.jsonl").prompts[2:4]
    rest = '"licence":"Apache-2.0","max_tokens":64,"messages":[{"content":'
    by_hand = (
        '{"arrival_s":1e-07,"id":"talk",' + rest + '"Be short.","role":"system"}],'
        '"reference":["ä","b"],"source":"hand-made","stratum":"mixed",'
        '"turns":[{"assistant":"Hi!\\n","user":"Hi"},{"user":"And\\r\\nnow?"}]}\n'
        '{"arrival_s":1700000000.0,"id":"instants",' + rest + '"x","role":"user"}],'
        '"source":"hand-made","stratum":"mixed"}\n'
    )
    assert digest(prompts) == hashlib.sha256(by_hand.encode()).hexdigest()


def test_a_sample_of_a_table_has_its_digest() -> None:
    columns = {"stratum": "kind", "max_tokens": "cap", "arrival_s": "time"}
    found = prepare(PORTABLE / "rows.csv", Preparing(columns=columns, sample=4, seed=7))
    assert len(found.prompts) == 12
    assert digest(found.prompts) == PREPARED


def test_a_generated_workload_has_its_digest() -> None:
    asked = GeneratedWorkload(generate="summarize-long", seed=5, tokens=(2_000, 4_000), prompts=2)
    assert generated(asked).sha256 == GENERATED
