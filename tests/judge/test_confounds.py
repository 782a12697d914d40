from __future__ import annotations

import pytest

from specbench.engines.known import ENGINES
from specbench.facts import Audit, Fact
from specbench.judge.confounds import differences, direction, scoped
from specbench.methods import Confound
from specbench.observe.logs import audit
from tests.conftest import CAPTURES


def h200(arm: str) -> Audit:
    log = (CAPTURES / "launches/vllm-0.23.0-h200" / f"{arm}.log").read_text(errors="replace")
    return audit(log, ENGINES["vllm"].log_patterns(), ())


def changed(arm: str) -> dict[str, tuple[str, str]]:
    found = differences(h200("baseline"), h200(arm), ())
    return {difference.fact: (difference.baseline, difference.arm) for difference in found}


def test_a_draft_model_on_the_h200_loses_async_runner_and_budget() -> None:
    assert changed("draft-k3") == {
        "async_scheduling": ("True", "False"),
        "model_runner": ("V2", "V1"),
        "max_num_scheduled_tokens": ("8192", "7168"),
        "kv_cache_tokens": ("1721792", "1636240"),
    }


def test_ngram_on_the_h200_loses_async_and_runner_but_not_the_budget() -> None:
    assert changed("ngram-k3") == {
        "async_scheduling": ("True", "False"),
        "model_runner": ("V2", "V1"),
        "kv_cache_tokens": ("1721792", "1714112"),
    }


def test_eagle_on_the_h200_keeps_both() -> None:
    assert changed("eagle-k3") == {"kv_cache_tokens": ("1721792", "1669184")}


def test_a_controlled_property_comes_first_and_is_marked() -> None:
    ours = Audit(
        facts=(
            Fact(name="dtype", value="bfloat16", source=""),
            Fact(name="a", value="1", source=""),
        )
    )
    theirs = Audit(
        facts=(Fact(name="dtype", value="float16", source=""), Fact(name="a", value="2", source=""))
    )
    found = differences(ours, theirs, [Confound(fact="a", meaning="known to change")])
    assert [(d.fact, d.controlled, d.meaning[:5]) for d in found] == [
        ("dtype", True, "these"),
        ("a", False, "known"),
    ]


def test_a_controlled_property_that_one_side_does_not_state_rejects_nothing() -> None:
    theirs = Audit(facts=(Fact(name="dtype", value="float16", source=""),))
    (found,) = differences(Audit(facts=()), theirs, ())
    assert (found.baseline, found.controlled) == ("unknown", False)


def test_the_table_of_the_four_h200_arms_reads_as_the_logs_do() -> None:
    arms = ("draft-k3", "ngram-k3", "eagle-k3")
    found = scoped({arm: differences(h200("baseline"), h200(arm), ()) for arm in arms})
    told = {
        arm: {d.fact: (d.direction, d.scope) for d in differing if d.fact != "kv_cache_tokens"}
        for arm, differing in found.items()
    }
    lost = {
        "async_scheduling": ("favours baseline", "asymmetric"),
        "model_runner": ("unclear", "asymmetric"),
    }
    assert told == {
        "draft-k3": {**lost, "max_num_scheduled_tokens": ("favours baseline", "asymmetric")},
        "ngram-k3": lost,
        "eagle-k3": {},
    }
    (budget,) = [d for d in found["draft-k3"] if d.fact == "max_num_scheduled_tokens"]
    assert budget.sentence == (
        "scheduled-token budget of a step: 8,192 tokens in the baseline, 7,168 tokens in the arm: "
        "this favours the baseline"
    )


def test_what_every_speculative_arm_differs_in_is_common() -> None:
    arms = ("draft-k3", "ngram-k3")
    found = scoped({arm: differences(h200("baseline"), h200(arm), ()) for arm in arms})
    scopes = {d.fact: d.scope for d in found["draft-k3"]}
    assert scopes["async_scheduling"] == "common"
    assert scopes["model_runner"] == "common"
    assert scopes["max_num_scheduled_tokens"] == "asymmetric"


@pytest.mark.parametrize(
    ("fact", "baseline", "arm", "favoured"),
    [
        ("async_scheduling", "True", "False", "favours baseline"),
        ("async_scheduling", "False", "True", "favours speculation"),
        ("max_num_scheduled_tokens", "8192", "7168", "favours baseline"),
        ("kv_cache_tokens", "1000", "2000", "favours speculation"),
        ("enforce_eager", "False", "True", "favours baseline"),
        ("cudagraph_mode", "FULL_AND_PIECEWISE", "NONE", "favours baseline"),
        ("cudagraph_mode", "FULL_AND_PIECEWISE", "PIECEWISE", "unclear"),
        ("per_request_metrics", "none", "summary", "favours baseline"),
        ("model_runner", "V2", "V1", "unclear"),
        ("max_num_seqs", None, "8", "unclear"),
    ],
)
def test_a_difference_favours_who_has_more_of_what_speeds_up(
    fact: str, baseline: str | None, arm: str | None, favoured: str
) -> None:
    assert direction(fact, baseline, arm) == favoured


def test_what_a_method_says_is_taken_only_where_the_arm_has_that_value() -> None:
    ours = Audit(facts=(Fact(name="async_scheduling", value="False", source=""),))
    theirs = Audit(facts=(Fact(name="async_scheduling", value="True", source=""),))
    named = [Confound(fact="async_scheduling", meaning="loses it", value="False")]
    (found,) = differences(ours, theirs, named)
    assert found.meaning == "this favours speculation"
    (found,) = differences(theirs, ours, named)
    assert found.meaning == "loses it"


def test_without_speculation_the_whole_batched_budget_is_scheduled() -> None:
    ours = Audit(facts=(Fact(name="max_num_batched_tokens", value="8192", source=""),))
    theirs = Audit(
        facts=(
            Fact(name="max_num_batched_tokens", value="8192", source=""),
            Fact(name="max_num_scheduled_tokens", value="8192", source=""),
        )
    )
    assert differences(ours, theirs, ()) == ()
