from __future__ import annotations

import pytest

from specbench.facts import Acceptance
from specbench.judge.acceptance_sources import delivered_by_events, reconciled
from tests.conftest import row
from tests.judge.test_cell_confounds import delta


def accepted(count: int) -> Acceptance:
    return Acceptance(drafts=20, drafted=60, accepted=count, per_position=None, source="counters")


def events(*counts: int | None, **changes: object):
    return row(event_tokens=counts, event_ns=tuple(range(len(counts))), **changes)


# 1 + 3 + 2 + 1 + 4 tokens: 0 + 2 + 1 + 0 + 3 of them were accepted drafts.
ROW = events(1, 3, 2, 1, 4)


def test_an_event_of_n_tokens_brings_n_minus_one_accepted() -> None:
    assert delivered_by_events([ROW, ROW]) == 12
    assert delivered_by_events([ROW, events(1, None)]) is None
    assert delivered_by_events([]) is None


@pytest.mark.parametrize(
    ("count", "outcome"),
    # One request of k = 3 may lose up to 3 accepted tokens at its end: 6 to 9 counted ones fit.
    [(6, "pass"), (9, "pass"), (10, "fail"), (5, "undecided")],
)
def test_counters_may_exceed_events_by_the_last_draft_of_each_request(
    count: int, outcome: str
) -> None:
    verdict = reconciled(accepted(count), delta(), [ROW], 3)
    assert verdict is not None
    assert verdict.outcome == outcome


def test_what_failed_or_was_preempted_leaves_it_undecided() -> None:
    failed = reconciled(accepted(10), delta(), [events(1, 3, status="timeout")], 3)
    preempted = reconciled(accepted(10), delta(preemptions=1), [ROW], 3)
    assert failed is not None
    assert preempted is not None
    assert (failed.outcome, preempted.outcome) == ("undecided", "undecided")


def test_without_token_ids_nothing_is_ruled() -> None:
    assert reconciled(accepted(6), delta(), [events(None)], 3) is None
