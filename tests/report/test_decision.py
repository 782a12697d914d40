"""The section on what may be claimed."""

from __future__ import annotations

import re
from typing import Any

import attrs
import pytest

from specbench.report.content import Content, read_content
from specbench.report.decision import decision_section
from specbench.report.plain import plain
from specbench.store.store import opened
from tests.conftest import FinishedRun

ROW: dict[str, Any] = {
    "arm": "draft-k3",
    "stratum": "code",
    "sampling": "greedy",
    "metric": "tpot_p50_s",
    "loads": [1.0, 8.0],
    "estimate": 1.21,
    "low": 1.18,
    "high": 1.24,
    "interval_note": "",
    "p_holm": 0.0004,
    "comparisons": 4,
    "materiality": 0.03,
    "regression_limit": 0.05,
    "gain": "claimed",
    "regression": "shown_absent",
    "reasons": [],
    "missing": [],
}


@pytest.fixture(scope="module")
def content(finished: FinishedRun) -> Content:
    with opened(finished.results) as connection:
        return read_content(connection, None)


def text(section: str) -> list[str]:
    return [part for part in re.sub(r"<[^>]+>", "\n", section).split("\n") if part]


def test_a_claim_stands_with_its_interval_its_rule_and_its_loads(content: Content) -> None:
    said = text(decision_section(attrs.evolve(content, decisions=[ROW])))
    assert (
        "Here: tpot p50 s; material from +3%; a loss over 5% is a regression; 4 comparisons."
        in said
    )
    start = said.index("draft-k3")
    assert said[start : start + 10] == [
        "draft-k3",
        "code",
        "greedy",
        "1, 8",
        "1.210",
        "1.180 to 1.240",
        "0.0004",
        "claimed",
        "shown absent",
        "-",
    ]


def test_a_withheld_gain_says_why_and_no_interval_is_made_up(content: Content) -> None:
    few = {"low": None, "high": None, "p_holm": None, "interval_note": "2 blocks: no interval"}
    row = ROW | few | {"gain": "withheld", "reasons": ["A/A fails"], "missing": ["block 2: lost"]}
    said = text(decision_section(attrs.evolve(content, decisions=[row])))
    assert "2 blocks: no interval" in said
    assert said[said.index("withheld") + 2] == "A/A fails; block 2: lost"


def test_a_declared_mix_of_traffic_is_shown_with_its_shares(content: Content) -> None:
    mixed = {
        "arm": "draft-k3",
        "sampling": "greedy",
        "concurrency": 8,
        "arrival_rate": None,
        "strata": ["chat", "code"],
        "shares": [0.25, 0.75],
        "speedup": 1.1,
        "low": None,
        "high": None,
        "interval_note": "2 blocks: no interval under 3",
        "missing": [],
    }
    assert "The declared traffic mix" not in decision_section(content)
    said = text(decision_section(attrs.evolve(content, traffic_mix=[mixed])))
    assert said[said.index("25% chat, 75% code") + 1] == "1.100"


def test_a_run_of_two_blocks_claims_nothing_on_page_and_in_numbers(content: Content) -> None:
    assert {row["gain"] for row in content.decisions} == {"not_shown"}
    assert "2 blocks: a claim needs 5" in decision_section(content)
    assert plain(content)["decisions"] == content.decisions
