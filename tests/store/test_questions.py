"""The questions of docs/sql.md on an index that is small enough to know the answers of."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from specbench.store.store import insert, opened, rebuilt, rows
from tests.conftest import ROOT

Row = dict[str, Any]
ASKED = dict(
    re.findall(r"## ([^\n]*)\n.*?```sql\n(.*?)```", (ROOT / "docs/sql.md").read_text(), re.DOTALL)
)

ARMS = {
    "baseline": ("baseline", None),
    "draft-k2": ("draft_model", 2),
    "draft-k5": ("draft_model", 5),
    "ngram-k3": ("ngram", 3),
}
SPEEDUPS = {
    # Code: long drafts win alone and lose in company. Chat: n-gram loses everywhere.
    ("draft-k2", "code", 1): 1.5,
    ("draft-k5", "code", 1): 1.8,
    ("ngram-k3", "code", 1): 1.6,
    ("draft-k2", "code", 32): 1.2,
    ("draft-k5", "code", 32): 0.9,
    ("ngram-k3", "code", 32): 1.3,
    ("draft-k2", "chat", 1): 1.4,
    ("draft-k5", "chat", 1): 1.3,
    ("ngram-k3", "chat", 1): 0.7,
    ("draft-k2", "chat", 32): 1.1,
    ("draft-k5", "chat", 32): 0.8,
    ("ngram-k3", "chat", 32): 0.6,
}
COSTS = {
    # Tokens a decode step and cost of a step.
    ("draft-k2", "code", 1): (2.4, 1.5),
    ("draft-k5", "code", 1): (4.0, 2.0),
    ("draft-k2", "code", 32): (2.4, 1.9),
    ("draft-k5", "code", 32): (4.0, 4.4),
}
PROMPTS = {"p1": 0.1, "p2": 0.3, "p3": 0.5, "p4": 0.9}
"""Reuse of each prompt on code. N-gram makes a prompt exp(reuse) times as fast there."""


def filled(table: str, known: Row, described: list[Row]) -> Row:
    """Give a row with something in every column that may not be null."""
    blank = {
        "VARCHAR": "",
        "INTEGER": 1,
        "BIGINT": 1,
        "DOUBLE": 1.0,
        "BOOLEAN": False,
        "JSON": "{}",
    }
    needed = {row["column_name"]: row["column_type"] for row in described if row["null"] == "NO"}
    unknown = known.keys() - {row["column_name"] for row in described}
    assert not unknown, f"{table} has no {unknown}"
    return {**{name: blank.get(kind, []) for name, kind in needed.items()}, **known}


def deployments() -> Iterator[Row]:
    for arm, (method, k) in ARMS.items():
        yield {
            "deployment_id": arm,
            "run_id": "r",
            "arm": arm,
            "method": method,
            "family": method,
            "role": "baseline" if k is None else "arm",
            "longest_draft": k,
            "status": "complete",
        }


def effects() -> Iterator[Row]:
    for (arm, stratum, concurrency), ratio in SPEEDUPS.items():
        yield {
            "run_id": "r",
            "comparison": "shipped",
            "role": "arm",
            "arm": arm,
            "stratum": stratum,
            "sampling": "greedy",
            "concurrency": concurrency,
            "metric": "output_throughput",
            "estimate": ratio,
        }


def break_evens() -> Iterator[Row]:
    for (arm, stratum, concurrency), (tokens, cost) in COSTS.items():
        yield {
            "run_id": "r",
            "comparison": "shipped",
            "arm": arm,
            "stratum": stratum,
            "sampling": "greedy",
            "concurrency": concurrency,
            "cost": cost,
            "delivered_per_step": tokens,
        }


def cells() -> Iterator[Row]:
    for arm in ("baseline", "ngram-k3"):
        yield {
            "cell_id": arm,
            "deployment_id": arm,
            "stratum": "code",
            "sampling": "greedy",
            "concurrency": 1,
        }


def requests() -> Iterator[Row]:
    for prompt, reuse in PROMPTS.items():
        for arm, tpot_s in (("baseline", 0.01), ("ngram-k3", 0.01 / math.exp(reuse))):
            # Two passes of each prompt: the mean of both is what counts.
            for shift in (-0.001, 0.001):
                yield {
                    "cell_id": arm,
                    "prompt_id": prompt,
                    "status": "ok",
                    "tpot_s": tpot_s + shift,
                    "prompt_reuse": reuse,
                }


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index") / "r.duckdb"
    correlation = {
        "run_id": "r",
        "stratum": "code",
        "sampling": "greedy",
        "concurrency": 1,
        "quantity": "acceptance_rate",
        "metric": "tpot_p50_s",
        "arms": 4,
        "pearson": -0.876,
        "spearman": -0.8,
    }
    tables = {
        "experiments": [{"run_id": "r", "simulated": True}],
        "deployments": list(deployments()),
        "effects": list(effects()),
        "break_evens": list(break_evens()),
        "correlations": [correlation],
        "cells": list(cells()),
        "requests": list(requests()),
    }
    with rebuilt(path) as connection:
        for table, known in tables.items():
            described = rows(connection, f"describe {table}")
            insert(connection, table, [filled(table, row, described) for row in known])
    return path


def ask(results: Path, question: str) -> list[Row]:
    with opened(results) as connection:
        return rows(connection, ASKED[question])


def test_speed_up_over_workload_and_concurrency(results: Path) -> None:
    found = ask(results, "How does speed-up vary over workload and concurrency?")
    assert len(found) == 12
    kept = {(r["arm"], r["stratum"]): r["of_lowest_load"] for r in found if r["concurrency"] == 32}
    assert kept["draft-k5", "code"] == 0.5
    assert kept["draft-k2", "code"] == 0.8
    assert kept["ngram-k3", "chat"] == 0.857
    assert all(r["of_lowest_load"] == 1 for r in found if r["concurrency"] == 1)


def test_how_acceptance_goes_with_tpot(results: Path) -> None:
    (found,) = ask(results, "How does acceptance predict TTFT, TPOT and throughput?")
    assert (found["metric"], found["pearson"], found["spearman"]) == ("tpot_p50_s", -0.88, -0.8)


def test_the_best_k_and_where_overhead_outweighs_it(results: Path) -> None:
    found = ask(results, "Which k is best, and where does draft overhead outweigh it?")
    best = {(r["family"], r["stratum"], r["concurrency"]): r["k"] for r in found if r["best"]}
    assert best["draft_model", "code", 1] == 5
    assert best["draft_model", "code", 32] == 2
    assert best["draft_model", "chat", 1] == 2
    assert best["ngram", "chat", 32] == 3
    outweighed = [
        (r["k"], r["stratum"], r["concurrency"], r["gain"])
        for r in found
        if r["overhead_outweighs"]
    ]
    # 4.0 tokens a step that costs 4.4: 0.909.
    assert outweighed == [(5, "code", 32, 0.909)]


def test_where_n_gram_beats_the_draft_model(results: Path) -> None:
    found = ask(results, "When does n-gram beat the draft model?")
    ahead = {(r["stratum"], r["concurrency"]): r["ngram_ahead"] for r in found}
    assert ahead == {
        ("code", 1): False,
        ("code", 32): True,
        ("chat", 1): False,
        ("chat", 32): False,
    }
    rival = next(r for r in found if (r["stratum"], r["concurrency"]) == ("code", 32))
    assert (rival["draft_model"], rival["draft_model_speedup"]) == ("draft-k2", 1.2)


def test_whether_concurrency_shrinks_the_best_k(results: Path) -> None:
    found = ask(results, "Does more concurrency shrink the best k?")
    told = {(r["family"], r["stratum"]): (r["best_k"], r["shrinks"]) for r in found}
    assert told["draft_model", "code"] == ([5, 2], True)
    assert told["draft_model", "chat"] == ([2, 2], False)
    # One k cannot tell.
    assert told["ngram", "code"] == ([3, 3], None)


def test_whether_reuse_explains_n_gram(results: Path) -> None:
    (found,) = ask(results, "Does reuse of prompt spans explain n-gram?")
    assert (found["arm"], found["prompts"], found["reuse"]) == ("ngram-k3", 4, 0.45)
    assert found["correlation"] == 1.0
    assert found["gain_at_more_reuse"] == round(math.exp((0.5 + 0.9) / 2), 3)
    assert found["gain_at_less_reuse"] == round(math.exp((0.1 + 0.3) / 2), 3)


def test_the_price_of_a_step(results: Path) -> None:
    found = ask(
        results, "What does a step of speculation cost, and which acceptance length pays for it?"
    )
    assert [(r["arm"], r["concurrency"], r["cost"]) for r in found] == [
        ("draft-k2", 1, 1.5),
        ("draft-k2", 32, 1.9),
        ("draft-k5", 1, 2.0),
        ("draft-k5", 32, 4.4),
    ]
