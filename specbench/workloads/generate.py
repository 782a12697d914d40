"""Workloads that an experiment asks to be generated."""

from __future__ import annotations

from pathlib import Path

from specbench.experiment.model import GeneratedWorkload
from specbench.workloads.read import WorkloadContent, digest
from specbench.workloads.summarize_long import summarize_long

LEAST_GENERATED = 200
"""Tokens of the shortest text that still holds a chapter."""


def generated(asked: GeneratedWorkload) -> WorkloadContent:
    """Generate a workload: the same on every machine and Python."""
    least, most = asked.tokens
    prompts = summarize_long(asked.seed, least, most, asked.prompts, asked.max_tokens)
    path = Path(f"{asked.generate}-{asked.seed}.jsonl")
    return WorkloadContent(path=path, prompts=prompts, sha256=digest(prompts), generated=True)
