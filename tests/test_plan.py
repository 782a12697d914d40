from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.campaign import plan_facts
from specbench.errors import ExperimentError
from specbench.experiment.read import ReadExperiment, read_experiment
from specbench.methods import Method
from specbench.order import williams_square
from specbench.plan import Plan, estimate, plan
from specbench.plan_text import plan_text
from specbench.planned_cell import requests_of_cell
from tests.conftest import ROOT, SMALL


@pytest.fixture
def planned(
    read_small: Callable[..., ReadExperiment], methods: Mapping[str, Method[Any]]
) -> Callable[..., Plan]:
    def make(document: str = SMALL, **options: Any) -> Plan:
        return plan(read_small(document), methods, **options)

    return make


VLLM = SMALL.replace(
    "engine: simulated, model: toy, flags: {speed: 20, seed: 3}",
    "engine: vllm, model: /models/target",
)
DRAFT = "{name: draft, method: draft_model, model: /models/draft, num_speculative_tokens: 3}"
SHARDED = DRAFT.replace("model: /models/draft", "model: toy-draft, draft_tensor_parallel: 2")
SPECS = sorted((ROOT / "specs").glob("*.yaml"))


def with_arm(arm: str, document: str = SMALL) -> str:
    return document.replace("arms:\n", f"arms:\n  - {arm}\n")


def unservable(made: Plan) -> dict[str, tuple[str, ...]]:
    return {arm.name: arm.unservable for arm in made.arms if arm.unservable}


@given(st.integers(2, 9))
def test_a_williams_square_balances_who_follows_whom(size: int) -> None:
    rows = williams_square(size)
    assert len(rows) == (size if size % 2 == 0 else 2 * size)
    assert all(sorted(row) == list(range(size)) for row in rows)
    follows = Counter((a, b) for row in rows for a, b in itertools.pairwise(row))
    assert set(follows.values()) == {1 if size % 2 == 0 else 2}
    assert len(follows) == size * (size - 1)


def test_a_block_launches_every_arm_once(planned: Callable[..., Plan]) -> None:
    for order in ("counterbalanced", "random"):
        made = planned(SMALL.replace("seed: 5", f"seed: 5, order: {order}"))
        for block in (1, 2):
            names = [d.arm.name for d in made.deployments if d.block == block]
            assert sorted(names) == ["baseline", "eagle-k3", "ngram-k3"]


def test_the_noise_floor_is_the_baseline_launched_again(planned: Callable[..., Plan]) -> None:
    made = planned(SMALL.replace("noise_floor: false", "noise_floor: true"))
    arms = {arm.name: arm for arm in made.arms}
    assert arms["baseline-repeat"].role == "noise_floor"
    assert arms["baseline-repeat"].command == arms["baseline"].command
    assert len(made.deployments) == 8


def test_cells_have_one_order_in_a_block_for_all_arms(planned: Callable[..., Plan]) -> None:
    made = planned(SMALL.replace("[1, 4]", "[1, 2, 3, 4, 5]").replace("blocks: 2", "blocks: 6"))
    orders = {
        block: {tuple(cell.name for cell in d.cells) for d in made.deployments if d.block == block}
        for block in range(1, 7)
    }
    assert all(len(found) == 1 for found in orders.values())
    assert len(set.union(*orders.values())) > 1


def test_more_blocks_keep_the_order_of_the_earlier_ones(planned: Callable[..., Plan]) -> None:
    few, many = planned(), planned(blocks=5)
    assert [d.name for d in many.deployments][: len(few.deployments)] == [
        d.name for d in few.deployments
    ]


def test_requests_default_to_whole_passes(read_small: Callable[..., ReadExperiment]) -> None:
    read = read_small(SMALL.replace(", requests: {1: 6, 4: 12}", ""))
    # 6 prompts: 64 needs 11 passes, and 10 x 8 = 80 needs 14.
    closed, small = read.experiment.load.closed, read_small()
    assert requests_of_cell(read, closed, "mixed", 1) == 66
    assert requests_of_cell(read, closed, "mixed", 8) == 84
    assert requests_of_cell(small, small.experiment.load.closed, "mixed", 4) == 12


def test_a_plan_for_an_unknown_version_says_so(planned: Callable[..., Plan]) -> None:
    assert "newest" in planned(VLLM).notes[0]
    found = planned(VLLM, engine_version="0.32.0+cpu")
    assert found.notes == ()
    assert found.read.experiment.target.version == "0.32.0+cpu"


def test_a_draft_sharded_unlike_the_target_is_unservable_with_its_source(
    planned: Callable[..., Plan],
) -> None:
    """vLLM tells 1 under another target TP late in the worker, all else by the configuration."""
    needed = "vLLM's draft_model needs them equal"
    two = f"draft_tensor_parallel 2 differs from the target's 1; {needed}"
    late = f"draft_tensor_parallel 1 differs from the target's 4; {needed}"
    made = planned(with_arm(SHARDED))
    assert unservable(made) == {"draft": (f"{two} (vllm/config/speculative.py, 0.11+)",)}
    one = SHARDED.replace("parallel: 2", "parallel: 1")
    wide = with_arm(one, VLLM.replace("/models/target", "/models/target, tensor_parallel: 4"))
    said = f"{late} (vllm/v1/spec_decode/draft_model.py, 0.23+)"
    assert unservable(planned(wide)) == {"draft": (said,)}
    assert unservable(planned(with_arm(one))) == {}


def test_an_unservable_arm_is_planned_and_not_launched(planned: Callable[..., Plan]) -> None:
    made = planned(with_arm(SHARDED))
    assert [arm.name for arm in made.arms] == ["draft", "baseline", "ngram-k3", "eagle-k3"]
    assert [d.name for d in made.deployments] == [d.name for d in planned().deployments]


def test_asked_for_an_unservable_arm_comes_last_in_each_block_and_moves_no_other(
    planned: Callable[..., Plan],
) -> None:
    made = planned(with_arm(SHARDED), launch_unservable=True)
    names = [d.name for d in made.deployments]
    assert [name for name in names if "draft" in name] == ["b01-04-draft", "b02-04-draft"]
    assert [n for n in names if "draft" not in n] == [d.name for d in planned().deployments]


def test_the_declared_version_or_that_of_the_interpreter_decides_what_is_unservable(
    planned: Callable[..., Plan],
) -> None:
    document = with_arm(DRAFT, VLLM)
    source = "vllm/config/speculative.py of 0.11 and 0.23"
    said = (f"vLLM 0.11 does not serve method 'draft_model'; 0.23 does ({source})",)
    assert unservable(planned(document, engine_version="0.11.0")) == {"draft": said}
    assert unservable(planned(document, engine_version="0.23.0")) == {}
    assert unservable(planned(document)) == {}
    declared = document.replace("engine: vllm", "engine: vllm, version: 0.11.0")
    assert unservable(planned(declared, engine_version="0.23.0")) == {"draft": said}


def test_an_unservable_baseline_is_an_error_even_when_launches_are_asked_for(
    planned: Callable[..., Plan],
) -> None:
    flags = "version: 0.32.0, flags: {per-request-spec-decode-metrics: summary}"
    document = VLLM.replace("engine: vllm", f"engine: vllm, {flags}")
    for asked in (False, True):
        with pytest.raises(ExperimentError) as caught:
            planned(document, launch_unservable=asked)
        (problem,) = caught.value.problems
        assert str(problem).endswith(
            "small.yaml: the baseline 'baseline' is unservable: vLLM 0.32 refuses the flag "
            "per-request-spec-decode-metrics without speculation; leave the flag out "
            "(vllm/config/vllm.py, 0.32+)"
        )


def test_no_servable_arm_but_the_baseline_is_an_error_unless_launches_are_asked_for(
    planned: Callable[..., Plan],
) -> None:
    lines = SMALL.splitlines(keepends=True)
    document = with_arm(SHARDED, "".join(x for x in lines if "ngram" not in x and "eagle" not in x))
    with pytest.raises(ExperimentError) as caught:
        planned(document)
    first, last = map(str, caught.value.problems)
    assert "arm 'draft' is unservable: draft_tensor_parallel 2 differs" in first
    assert "no arm is left to compare with the baseline" in last
    assert "--launch-unservable" in last
    assert len(planned(document, launch_unservable=True).deployments) == 4


def test_a_baseline_alone_is_planned(planned: Callable[..., Plan]) -> None:
    lines = SMALL.splitlines(keepends=True)
    made = planned("".join(x for x in lines if "ngram" not in x and "eagle" not in x))
    assert [d.arm.name for d in made.deployments] == ["baseline", "baseline"]


def test_text_and_facts_of_a_plan_tell_unservable_arms(planned: Callable[..., Plan]) -> None:
    made = planned(with_arm(SHARDED))
    text = plan_text(made)
    assert "Unservable: launched only with --launch-unservable\n  arm 'draft' is unserv" in text
    assert "(vllm/config/speculative.py, 0.11+)\n\nOrder" in text
    assert "toy-draft" not in text.partition("Unservable")[0]
    assert plan_facts(made)["arms"]["draft"]["unservable"] == list(unservable(made)["draft"])
    asked = plan_text(planned(with_arm(SHARDED), launch_unservable=True))
    assert "Unservable, launched as asked" in asked
    assert "toy-draft" in asked.partition("Unservable")[0]


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_shipped_spec_is_planned_with_no_variable_set(
    path: Path, methods: Mapping[str, Method[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in re.findall(r"\$\{(\w+)\}", path.read_text()):
        monkeypatch.delenv(name, raising=False)
    assert plan(read_experiment(path, methods), methods).deployments


def test_the_apertus_screening_plans_the_unsharded_draft_as_unservable(
    methods: Mapping[str, Method[Any]],
) -> None:
    """Two blocks of two baselines, four drafts and four n-grams, in 2 x 2 cells each."""
    made = plan(read_experiment(ROOT / "specs/apertus-70b-screening.yaml", methods), methods)
    assert list(unservable(made)) == ["draft-k3-tp1"]
    assert len(made.deployments) == 20
    assert sum(len(d.cells) for d in made.deployments) == 80
    for arm in made.launched():
        argv = arm.command.argv
        assert argv[argv.index("--tensor-parallel-size") + 1] == "4"
        if arm.arm.method == "draft_model":
            assert '"draft_tensor_parallel_size": 4' in argv[-1]


def test_the_text_of_a_plan_names_commands_order_and_cells(planned: Callable[..., Plan]) -> None:
    text = plan_text(planned())
    assert "--port '{port}'" in text
    assert '"method": "ngram", "num_speculative_tokens": 3' in text
    assert "mixed-greedy-c4 (12)" in text
    assert "6 launches, 12 cells" in text


def test_an_estimate_tells_its_assumption(planned: Callable[..., Plan]) -> None:
    guess = estimate(planned())
    assert guess.seconds > 6
    assert "1 s a launch" in guess.assumption


def test_planning_is_pure(planned: Callable[..., Plan]) -> None:
    first = planned()
    assert attrs.evolve(planned(), read=first.read) == first


EQUALISED = VLLM.replace("noise_floor: false", "noise_floor: false, equalise: true")


def on(version: str, flags: str = "", arms: str = "") -> str:
    """An experiment with equalised twins, for a version of vLLM."""
    return EQUALISED.replace(
        "model: /models/target", f"model: /models/target, version: {version}, flags: {{{flags}}}"
    ).replace("arms:\n", f"arms:\n{arms}")


DRAFT_LINE = f"  - {DRAFT}\n"
BUDGET = "max-num-batched-tokens: 8192, max-num-seqs: 1024"


def test_each_distinct_set_of_confounds_has_one_twin_of_the_baseline(
    planned: Callable[..., Plan],
) -> None:
    found = planned(on("0.23.0", BUDGET, DRAFT_LINE))
    twins = {arm.name: arm for arm in found.arms if arm.role == "equalised"}
    assert sorted(twins) == [
        "baseline-no-async-budget-7168-runner-v1",
        "baseline-no-async-runner-v1",
    ]
    assert {arm.name: arm.twin for arm in found.arms if arm.role == "arm"} == {
        "draft": "baseline-no-async-budget-7168-runner-v1",
        "ngram-k3": "baseline-no-async-runner-v1",
        "eagle-k3": None,
    }
    ngram = twins["baseline-no-async-runner-v1"].command
    assert ngram.argv[-1] == "--no-async-scheduling"
    assert ngram.environment["VLLM_USE_V2_MODEL_RUNNER"] == "0"
    assert "--speculative-config" not in ngram.argv
    draft = twins["baseline-no-async-budget-7168-runner-v1"].command
    assert draft.argv[-3:] == ("--no-async-scheduling", "--max-num-batched-tokens", "7168")
    assert twins["baseline-no-async-runner-v1"].expected.properties == {
        "tensor_parallel": "1",
        "async_scheduling": "False",
        "model_runner": "V1",
    }


def test_the_simulated_server_of_that_version_has_the_same_twins(
    planned: Callable[..., Plan],
) -> None:
    simulated = on("0.23.0", BUDGET, DRAFT_LINE).replace("engine: vllm", "engine: simulated")
    found = planned(simulated)
    assert {arm.name: arm.twin for arm in found.arms if arm.role == "arm"} == {
        "draft": "baseline-no-async-budget-7168-runner-v1",
        "ngram-k3": "baseline-no-async-runner-v1",
        "eagle-k3": None,
    }


def test_every_block_launches_every_twin(planned: Callable[..., Plan]) -> None:
    found = planned(on("0.23.0"))
    for block in (1, 2):
        names = [item.arm.name for item in found.deployments if item.block == block]
        assert sorted(names) == [
            "baseline",
            "baseline-no-async-runner-v1",
            "eagle-k3",
            "ngram-k3",
        ]


def test_what_cannot_be_set_before_the_launch_is_told(planned: Callable[..., Plan]) -> None:
    notes = planned(on("0.23.0", "", DRAFT_LINE)).notes
    assert any(
        "'draft': max_num_scheduled_tokens, kv_cache_tokens cannot be set" in n for n in notes
    )


@pytest.mark.parametrize(
    ("version", "twin"),
    [
        ("0.24.0", "baseline-no-async-runner-v1"),
        ("0.32.0", "baseline-no-async"),
        # 0.33 decides by the runner, and n-gram keeps both.
        ("0.33.0", None),
        # Nobody read it: nothing is assumed.
        ("0.28.0", None),
    ],
)
def test_a_twin_follows_the_version_that_was_read(
    version: str, twin: str | None, planned: Callable[..., Plan]
) -> None:
    found = planned(on(version))
    assert next(arm.twin for arm in found.arms if arm.name == "ngram-k3") == twin


def test_without_equalise_no_twin_is_planned(planned: Callable[..., Plan]) -> None:
    assert {arm.role for arm in planned(VLLM).arms} == {"baseline", "arm"}


def test_a_twin_that_an_arm_is_named_like_is_refused(planned: Callable[..., Plan]) -> None:
    line = DRAFT_LINE.replace("name: draft", "name: baseline-no-async-runner-v1")
    with pytest.raises(ExperimentError, match="as an arm is"):
        planned(on("0.23.0", "", line))


def test_the_plan_says_which_twin_an_arm_is_compared_with(planned: Callable[..., Plan]) -> None:
    said = plan_text(planned(on("0.23.0")))
    assert "baseline-no-async-runner-v1 (the baseline with settings of an arm: equalised)" in said
    assert "compared with the baseline, and equalised with baseline-no-async-runner-v1" in said


PER_REQUEST = VLLM.replace("model: /models/target", "model: /models/target, version: 0.32.0")
PER_REQUEST += "per_request_metrics: true\n"


def test_only_speculative_servers_are_asked_for_metrics_of_requests(
    planned: Callable[..., Plan],
) -> None:
    flag = "--per-request-spec-decode-metrics"
    asked = {arm.name: flag in arm.command.argv for arm in planned(PER_REQUEST).arms}
    assert asked == {"baseline": False, "ngram-k3": True, "eagle-k3": True}
    assert not any(flag in arm.command.argv for arm in planned(VLLM).arms)
    simulated = planned(SMALL + "per_request_metrics: true\n")
    assert {arm.name: flag in arm.command.argv for arm in simulated.arms} == asked


def test_an_engine_that_tells_no_metrics_of_requests_is_refused(
    planned: Callable[..., Plan],
) -> None:
    with pytest.raises(ExperimentError, match=r"vllm 0\.23\.0 tells no acceptance of single"):
        planned(PER_REQUEST.replace("0.32.0", "0.23.0"))
    old = SMALL.replace("model: toy, flags", "model: toy, version: 0.23.0, flags")
    with pytest.raises(ExperimentError, match=r"simulated 0\.23\.0 tells no acceptance of single"):
        planned(old + "per_request_metrics: true\n")


def test_a_dose_of_acceptance_is_asked_of_the_server_and_marked(
    planned: Callable[..., Plan],
) -> None:
    dose = (
        "{name: 'dose-{synthetic_acceptance_length}', method: eagle, model: /models/head, "
        "num_speculative_tokens: 3, synthetic_acceptance_length: [1.5, 3.5]}"
    )
    arms = {arm.name: arm for arm in planned(with_arm(dose, VLLM)).arms}
    speculation = json.loads(arms["dose-1.5"].command.argv[-1])
    assert speculation["rejection_sample_method"] == "synthetic"
    assert speculation["synthetic_acceptance_length"] == 1.5
    assert arms["dose-3.5"].caveats[0].startswith("synthetic acceptance")
    assert arms["eagle-k3"].caveats == ()
    assert "rejection_sample_method" not in arms["eagle-k3"].command.argv[-1]
