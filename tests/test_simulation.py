from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from specbench.artifacts import find_runs
from specbench.engines.simulated import presets
from specbench.engines.simulated.presets import H200_6B
from specbench.errors import ExperimentError
from specbench.experiment.read import ReadExperiment
from specbench.methods import Method
from specbench.plan import Plan, plan
from specbench.simulation import SimulatedCell, Simulation, reach_of, simulate
from specbench.store.judged_run import JudgedRun, judged_deployments
from tests.conftest import ROOT, SMALL, run_small

TARGET = "{engine: simulated, model: toy, flags: {speed: 20, seed: 3}}"
HEADED = SMALL.replace("model: toy-head,", "model: toy-head, head: eagle,")
PLAIN = HEADED.replace("flags: {speed: 20, seed: 3}", "flags: {seed: 3}")
DRAFT = "  - {name: draft, method: draft_model, model: toy-draft, num_speculative_tokens: 3}\n"
CHATTING = f"""\
name: chatting
question: Does a draft pay at both loads?
target: {{engine: simulated, model: toy, flags: {{preset: h200-6b, seed: 7}}}}
arms:
  - {{name: baseline, method: baseline}}
  - {{name: draft, method: draft_model, model: toy-draft, num_speculative_tokens: 3}}
workloads: [{{path: {ROOT}/workloads/quickstart.jsonl}}]
load: {{closed: {{concurrency: [1, 32], requests: {{1: 12, 32: 96}}}}}}
"""
OVER_HTTP = (
    PLAIN.replace("arms:\n", f"arms:\n{DRAFT}")
    .replace("small.jsonl}]", "small.jsonl, max_tokens: 64}]")
    .replace("[1, 4], requests: {1: 6, 4: 12}", "[4], requests: {4: 12}")
    .replace("correctness:", "# correctness:")
)


def vllm(settings: str = "", document: str = HEADED) -> str:
    return document.replace(TARGET, f"{{engine: vllm, model: /models/target{settings}}}")


def launch_s(found: Simulation) -> dict[str, float]:
    return {arm.name: arm.launch_s for arm in found.arms}


def cell(found: Simulation, arm: str, name: str) -> SimulatedCell:
    cells = next(one.cells for one in found.arms if one.name == arm)
    return next(one for one in cells if one.cell.name == name)


@pytest.fixture
def planned(
    read_small: Callable[..., ReadExperiment], methods: Mapping[str, Method[Any]]
) -> Callable[..., Plan]:
    def make(document: str = PLAIN, **options: Any) -> Plan:
        return plan(read_small(document), methods, **options)

    return make


@pytest.fixture
def played(
    planned: Callable[..., Plan], methods: Mapping[str, Method[Any]]
) -> Callable[..., Simulation]:
    def play(document: str = PLAIN, preset: str | None = None, **options: Any) -> Simulation:
        return simulate(planned(document, **options), methods, preset)

    return play


def test_a_draft_wins_at_one_stream_and_loses_at_32(played: Callable[..., Simulation]) -> None:
    found = played(CHATTING)
    assert cell(found, "draft", "chat-greedy-c1").ratio > 1.01
    assert cell(found, "draft", "chat-greedy-c32").ratio < 0.9


def test_thousands_of_requests_take_seconds(played: Callable[..., Simulation]) -> None:
    began_s = time.process_time()
    found = played(CHATTING.replace("32: 96", "32: 600"))
    assert sum(one.cell.requests for arm in found.arms for one in arm.cells) == 4 * 612
    assert sum(one.window_s for arm in found.arms for one in arm.cells) > 10
    # 1 s on a quiet core.
    assert time.process_time() - began_s < 6


def test_the_same_is_played_twice(played: Callable[..., Simulation]) -> None:
    assert played() == played()


def test_every_cell_of_the_plan_is_played_in_its_order(
    planned: Callable[..., Plan], methods: Mapping[str, Method[Any]]
) -> None:
    made = planned(PLAIN.replace("noise_floor: false", "noise_floor: true"))
    found = simulate(made, methods)
    assert [arm.name for arm in found.arms] == ["baseline", "ngram-k3", "eagle-k3"]
    for arm in found.arms:
        assert [one.cell for one in arm.cells] == list(made.deployments[0].cells)
        assert [one.ratio is None for one in arm.cells] == [arm.name == "baseline"] * 2


def test_the_time_is_that_of_every_deployment_of_every_block(
    played: Callable[..., Simulation],
) -> None:
    noisy = vllm(", version: 0.32.0").replace("noise_floor: false", "noise_floor: true")
    found = played(noisy, blocks=3)
    assert launch_s(found) == {"baseline": 102, "ngram-k3": 102, "eagle-k3": 111}
    assert found.expected.deployments == 12
    # Three blocks of baseline, its repeat and two arms.
    assert found.expected.launches_s == 3 * (102 + 102 + 102 + 111)
    windows_s = {arm.name: sum(one.window_s for one in arm.cells) for arm in found.arms}
    assert found.expected.windows_s == pytest.approx(
        3 * (sum(windows_s.values()) + windows_s["baseline"])
    )
    assert found.expected.gpu_hours == pytest.approx(found.expected.wall_s / 3600)
    assert played().expected.launches_s == 6
    assert played().expected.gpu_hours == 0


def test_captures_cost_time_and_warm_no_cell(played: Callable[..., Simulation]) -> None:
    without = PLAIN.replace(
        "correctness: {workload: small.jsonl, captures: 2, concurrency: [2]}\n", ""
    )
    bare, whole = played(without), played()
    assert bare.expected.captures_s == 0 < whole.expected.captures_s
    assert [arm.cells for arm in bare.arms] == [arm.cells for arm in whole.arms]


def test_a_real_run_of_the_simulated_server_agrees(
    played: Callable[..., Simulation], tmp_path: Path
) -> None:
    """Over HTTP and by the wall clock: the counters exactly, TPOT as near as a busy machine is."""
    expected = cell(played(OVER_HTTP), "draft", "mixed-greedy-c4")
    (tmp_path / "run").mkdir()
    options = ("--only", "draft", "--dry-cells", "1", "--raw-only")
    done = run_small(tmp_path / "run", OVER_HTTP, *options)
    assert done.result.exit_code == 0, done.result.output
    (deployment,) = judged_deployments(JudgedRun.of(find_runs(tmp_path / "run/runs")[0]))
    (real,) = deployment.cells
    assert real.judged.ratios.acceptance_length == expected.acceptance_length
    assert real.judged.ratios.tokens_per_step == expected.tokens_per_step
    assert real.judged.summary.tpot_p50_s == pytest.approx(expected.tpot_p50_s, rel=0.1)


def test_a_real_target_is_stood_in_for_and_what_is_not_simulated_is_named(
    played: Callable[..., Simulation],
) -> None:
    flags = ", flags: {max_num_seqs: 2, max-num-batched-tokens: 8k, dtype: auto}"
    found = played(vllm(flags))
    assert found.preset.name == "h200-6b"
    assert found.notes[1].startswith("preset h200-6b stands in for /models/target: a 5.8 B Llama")
    assert found.notes[2] == "flags that are not simulated: max-num-batched-tokens, dtype"
    # Two seats for four streams: half of them wait.
    wide = played(vllm())
    assert cell(found, "baseline", "mixed-greedy-c4").ttft_p50_s > 2 * (
        cell(wide, "baseline", "mixed-greedy-c4").ttft_p50_s
    )


def test_a_method_without_costs_of_its_own_is_told(
    played: Callable[..., Simulation], monkeypatch: pytest.MonkeyPatch
) -> None:
    only = {"draft_model": H200_6B.drafters["draft_model"]}
    monkeypatch.setitem(presets.PRESETS, "h200-6b", attrs.evolve(H200_6B, drafters=only))
    assert [note.split(":")[0] for note in played().notes] == ["arm 'ngram-k3'", "arm 'eagle-k3'"]
    assert "does not know 'ngram' and takes a draft model's cost" in played().notes[0]


def test_the_version_decides_about_asynchronous_scheduling_unless_a_flag_does(
    played: Callable[..., Simulation],
) -> None:
    """vLLM 0.23 takes it off a draft model, 0.32 does not; n-gram never has it."""

    def asynchronous(target: str) -> dict[str, bool]:
        found = played(vllm(target).replace("arms:\n", f"arms:\n{DRAFT}"))
        return {arm.name: arm.async_scheduling for arm in found.arms if arm.name != "eagle-k3"}

    both = {"baseline": True, "draft": True, "ngram-k3": False}
    assert asynchronous(", version: 0.32.0") == both
    assert asynchronous(", version: 0.23.1rc1") == {**both, "draft": False}
    off = dict.fromkeys(both, False)
    assert asynchronous(", flags: {async-scheduling: false}") == off
    assert asynchronous(", flags: {no-async-scheduling: true}") == off


def test_a_version_that_is_not_known_is_played_as_another_and_told(
    played: Callable[..., Simulation],
) -> None:
    found = played(vllm(", version: 0.24.0"))
    assert found.shapes == "0.32.0"
    assert "vLLM 0.24.0 is played as 0.32.0" in found.notes
    assert played(vllm(", version: 0.23.0")).shapes == "0.23.0"


def test_a_preset_of_more_gpus_is_used_all_the_same_and_told(
    played: Callable[..., Simulation],
) -> None:
    found = played(vllm(", tensor_parallel: 2"), "gh200x4-70b")
    said = "GPUs of preset gh200x4-70b: 4; target.tensor_parallel is 2, "
    assert any(note.startswith(said) for note in found.notes)
    assert "preset gh200x4-70b is an estimate: no launch was fitted" in found.notes
    assert found.expected.gpu_hours == pytest.approx(2 * found.expected.wall_s / 3600)


def test_unservable_arms_and_refused_ones_are_listed_and_not_played(
    played: Callable[..., Simulation],
) -> None:
    sharded = DRAFT.replace("num_spec", "draft_tensor_parallel: 2, num_spec")
    found = played(PLAIN.replace("arms:\n", f"arms:\n{sharded}"))
    assert list(found.not_played) == ["draft"]
    assert "draft_tensor_parallel 2 differs" in found.not_played["draft"]
    assert [arm.name for arm in found.arms] == ["baseline", "ngram-k3", "eagle-k3"]
    # A draft's weights and its own KV leave less room than plain serving has.
    longest = H200_6B.kv_tokens("draft_model", 0.9) + 1
    found = played(vllm(f", max_model_len: {longest}").replace("arms:\n", f"arms:\n{DRAFT}"))
    assert "refused at launch: ValueError: To serve at least one" in found.not_played["draft"]
    assert found.arms[0].name == "baseline"


def test_a_baseline_that_cannot_be_served_ends_it(played: Callable[..., Simulation]) -> None:
    with pytest.raises(ExperimentError, match="h200-6b cannot serve the baseline, refused"):
        played(vllm(", flags: {gpu-memory-utilization: 0.05}"))
    with pytest.raises(ExperimentError, match="--max-num-seqs: must be 1 or more"):
        played(vllm(", flags: {max-num-seqs: 0}"))
    with pytest.raises(ExperimentError, match="no preset 'tpu'; one of: h200-6b, "):
        played(preset="tpu")


def test_a_prompt_that_does_not_fit_is_refused_by_name(played: Callable[..., Simulation]) -> None:
    said = r"prompt 'p\d' and its answer may take \d+ tokens .*, max_model_len is 16"
    with pytest.raises(ExperimentError, match=said):
        played(PLAIN.replace("model: toy,", "model: toy, max_model_len: 16,"))


def test_warm_prompts_stay_cold_in_another_cell(played: Callable[..., Simulation]) -> None:
    """Salts keep cells apart, so that the cache changes nothing here: every pass has its own."""
    off = f"{PLAIN}prefix_cache: off\n"
    assert [arm.cells for arm in played(off).arms] == [arm.cells for arm in played().arms]


def test_the_design_has_as_many_comparisons_as_arms_strata_and_samplings(
    planned: Callable[..., Plan],
) -> None:
    found = reach_of(planned(), noise=0.02, power=0.8)
    assert (found.blocks, found.baselines, found.comparisons) == (2, 1, 2)
    samplings = "sampling: [{name: greedy}, {name: warm, temperature: 0.7}]\n"
    more = planned(PLAIN.replace("noise_floor: false", "noise_floor: true") + samplings, blocks=6)
    found = reach_of(more, noise=0.02, power=0.8)
    assert (found.blocks, found.baselines, found.comparisons) == (6, 2, 4)
