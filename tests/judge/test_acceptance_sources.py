from __future__ import annotations

import pytest

from specbench.facts import Acceptance
from specbench.judge.acceptance_sources import (
    delivered_by_events,
    reconciled,
    same_as_requests,
    told_by_requests,
)
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


def told(drafts: int, drafted: int, count: int):
    return row(drafts=drafts, drafted_tokens=drafted, accepted_tokens=count)


def test_metrics_of_requests_are_added_up_and_must_equal_the_counters() -> None:
    rows = [told(12, 36, 9), told(8, 24, 6)]
    assert told_by_requests(rows) == Acceptance(
        drafts=20, drafted=60, accepted=15, per_position=None, source="per_request"
    )
    for count, outcome in ((15, "pass"), (16, "fail")):
        verdict = same_as_requests(accepted(count), rows)
        assert verdict is not None
        assert verdict.outcome == outcome


def test_one_request_that_told_nothing_leaves_the_others_unused() -> None:
    assert told_by_requests([told(12, 36, 9), row()]) is None
    assert same_as_requests(accepted(9), [row()]) is None
