from __future__ import annotations

from specbench.engines import ENGINES
from specbench.facts import Audit, Fact
from specbench.judge.confounds import differences
from specbench.methods import Confound
from specbench.observe.logs import audit
from tests.conftest import CAPTURES


def h200(arm: str) -> Audit:
    log = (CAPTURES / "vllm-0.23.0-h200" / arm / "launch.log").read_text(errors="replace")
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
        ("dtype", True, "diffe"),
        ("a", False, "known"),
    ]


def test_a_controlled_property_that_one_side_does_not_state_rejects_nothing() -> None:
    theirs = Audit(facts=(Fact(name="dtype", value="float16", source=""),))
    (found,) = differences(Audit(facts=()), theirs, ())
    assert (found.baseline, found.controlled) == ("unknown", False)
