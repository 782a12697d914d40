from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.engines.known import ENGINES
from specbench.facts import Audit, Fact, LogPattern
from specbench.observe import logs
from specbench.observe.logs import audit, audit_lines, log_times, messages, read_lines
from tests.conftest import CAPTURES

VLLM = ENGINES["vllm"]
DRAFT_LOG = (CAPTURES / "launches" / "vllm-0.23.0-h200" / "draft-k3.log").read_bytes()

PATTERNS = (
    LogPattern(fact="tokens", regex=r"cache size: (?P<value>[\d,]+) tokens"),
    LogPattern(fact="mode", regex=r"^Mode is on\.$", constant="True"),
    LogPattern(fact="mode", regex=r"^Mode is off\.$", constant="False"),
)


def test_lines_of_several_processes_count_once() -> None:
    log = (
        "(APIServer pid=1) WARNING 11-29 15:01:27 [vllm.py:9] Same.\n"
        "(EngineCore pid=2) WARNING 11-29 15:01:48 [vllm.py:9] Same.\n"
        "(Worker_TP0 pid=3) (Inner pid=4) INFO 11-29 15:01:48 [x.py:1] Other.\n"
    )
    said = [text for text, _ in messages(log.splitlines(keepends=True))]
    assert said == ["Same.", "Same.", "Other."]
    counting = (LogPattern(fact="seen", regex=r"^(?P<value>Same)\.$", keep="each"),)
    assert audit(log, counting, ()).value("seen") == "Same"


def test_colours_and_broken_bytes_are_survived() -> None:
    log = (
        b"\x1b[0;36m(EngineCore pid=2)\x1b[0;0m INFO 11-29 15:01:48 [k.py:1] "
        b"GPU KV cache size: 1,636,240 tokens\n\xff\xfe\n"
    )
    found = audit(log.decode(errors="replace"), PATTERNS, ())
    assert found.value("tokens") == "1636240"


def test_a_fact_keeps_the_line_it_came_from() -> None:
    (fact,) = audit("INFO 11-29 15:01:48 [k.py:1] KV cache size: 9 tokens\n", PATTERNS, ()).facts
    assert fact.source == "log: KV cache size: 9 tokens"


def test_a_later_line_overrides_an_earlier_one() -> None:
    assert audit("Mode is on.\nMode is off.\n", PATTERNS, ()).value("mode") == "False"


def test_the_resolved_configuration_comes_before_the_log() -> None:
    configured = (Fact(name="mode", value="False", source="server_info: x"),)
    assert audit("Mode is on.\n", PATTERNS, configured).value("mode") == "False"


def test_what_no_source_states_is_unknown() -> None:
    assert audit("nothing here\n", PATTERNS, ()).value("mode") is None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        # As a captured EAGLE log has it: two tags, the first one's message on the next line.
        ("(EngineCore pid=1) (APIServer pid=2) INFO 11-29 15:06:57 [l.py:1] Both.\n", ["Both."]),
        ("INFO 11-29 15:06:57 [c.py:1] Untagged.\n", ["Untagged."]),
        (
            "(A pid=1) INFO 11-29 15:06:57 [l.py:1] One.(B pid=2) INFO 11-29 15:06:57 [l.py:1] Two.\n",
            ["One.", "Two."],
        ),
        (
            "(A pid=1) half a bar 40%|##(B pid=2) INFO 11-29 15:06:57 [l.py:1] Two.\n",
            ["half a bar 40%|##", "Two."],
        ),
        ("INFO:     Application startup complete.\n", ["INFO:     Application startup complete."]),
        ("(A pid=1) \n", []),
        ('(A pid=1) INFO:     127.0.0.1:1 - "GET /metrics HTTP/1.1" 200 OK\n', []),
        (
            (
                "(A pid=1) INFO 11-29 15:06:57 [l.py:1] One.(B pid=2) INFO:     127.0.0.1:1 - "
                '"GET /metrics HTTP/1.1" 200 OK\n'
            ),
            ["One."],
        ),
    ],
)
def test_interleaved_writers_are_told_apart(line: str, said: list[str]) -> None:
    assert [text for text, _ in messages([line])] == said


def test_a_line_with_windows_ends_is_read() -> None:
    assert audit("Mode is on.\r\n", PATTERNS, ()).value("mode") == "True"


def test_a_last_line_without_an_end_states_nothing() -> None:
    assert audit("cache size: 1,636,240 tokens\ncache size: 1,6", PATTERNS, ()).facts
    assert audit("Mode is on.", PATTERNS, ()).value("mode") is None


def vllm_audit(path: Path) -> Audit:
    return audit_lines(read_lines(path), VLLM.log_patterns(), ())


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, len(DRAFT_LOG)))
def test_a_log_cut_anywhere_states_nothing_that_a_whole_line_does_not(
    cut: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "cut.log"
    path.write_bytes(DRAFT_LOG[:cut])
    found = {(fact.name, fact.value) for fact in vllm_audit(path).facts}
    path.write_bytes(DRAFT_LOG[: DRAFT_LOG[:cut].rfind(b"\n") + 1])
    assert found == {(fact.name, fact.value) for fact in vllm_audit(path).facts}


@settings(max_examples=60, deadline=None)
@given(noise=st.lists(st.tuples(st.integers(0, 40), st.binary(max_size=60)), max_size=6))
def test_lines_of_any_bytes_between_change_no_fact(
    noise: list[tuple[int, bytes]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "noisy.log"
    lines = DRAFT_LOG.splitlines(keepends=True)
    for place, junk in noise:
        lines.insert(place, junk.replace(b"\n", b"") + b"\n")
    path.write_bytes(b"".join(lines))
    noisy = {fact.name: fact.value for fact in vllm_audit(path).facts}
    path.write_bytes(DRAFT_LOG)
    assert noisy == {fact.name: fact.value for fact in vllm_audit(path).facts}


def test_a_line_longer_than_the_limit_states_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "LONGEST_LINE", 64)
    path = tmp_path / "long.log"
    # Its last piece, read alone, would be a whole line that states a fact.
    path.write_bytes(b"x" * 64 + b"Mode is on.\nMode is off.\n")
    assert list(read_lines(path)) == ["Mode is off.\n"]


def test_a_text_that_is_none_of_its_type_states_nothing() -> None:
    configured = (Fact(name="kv_cache_tokens", value="many", source="server_info: x"),)
    assert audit("", (), configured).facts == ()


def test_a_worker_that_decides_later_overrides_the_configuration() -> None:
    configured = (Fact(name="cudagraph_mode", value="FULL_AND_PIECEWISE", source="server_info"),)
    line = (
        "(Worker pid=1) WARNING 11-29 15:06:57 [g.py:1] CUDAGraphMode.FULL_AND_PIECEWISE is not "
        "supported with spec-decode for attention backend FLASHINFER (support: UNIFORM_SINGLE_TOKEN"
        "_DECODE); setting cudagraph_mode=PIECEWISE\n"
    )
    found = audit(line, VLLM.log_patterns(), configured)
    assert found.value("cudagraph_mode") == "PIECEWISE"
    assert [warning.kind for warning in found.warnings] == ["graph_mode_lowered"]


def test_of_a_log_that_two_launches_wrote_the_last_one_counts() -> None:
    folder = CAPTURES / "launches" / "vllm-0.23.0-h200"
    texts = [(folder / f"{arm}.log").read_text() for arm in ("draft-k3", "baseline")]
    alone = audit(texts[1], VLLM.log_patterns(), ())
    assert audit("".join(texts), VLLM.log_patterns(), ()) == alone
    assert alone.value("num_speculative_tokens") is None
    library = "INFO 11-29 15:01:27 [x.py:1] Found a library, version 2.27.5\n"
    assert audit(texts[1] + library, VLLM.log_patterns(), ()) == alone


def test_of_several_workers_the_one_with_least_memory_counts() -> None:
    log = "".join(
        f"(Worker_TP{rank} pid={rank}) INFO 11-29 15:06:57 [g.py:1] Available KV cache memory: "
        f"{gib} GiB\n"
        for rank, gib in enumerate(("9.5", "8.25", "10.0"))
    )
    assert audit(log, VLLM.log_patterns(), ()).typed("kv_cache_memory_gib") == 8.25


def test_a_drafter_with_another_attention_backend_adds_its_own() -> None:
    log = "".join(
        f"INFO 11-29 15:06:57 [c.py:1] Using {name} attention backend out of potential backends: []\n"
        for name in ("FLASH_ATTN", "TRITON_ATTN", "FLASH_ATTN")
    )
    found = audit(log, VLLM.log_patterns(), ())
    assert found.value("attention_backend") == "FLASH_ATTN and TRITON_ATTN"


def test_a_start_over_new_year_takes_its_seconds() -> None:
    log = (
        "INFO 12-31 23:59:50 [a.py:1] First.\n"
        "INFO 01-01 00:00:12 [a.py:1] Starting vLLM server on http://127.0.0.1:8000\n"
    )
    assert audit(log, VLLM.log_patterns(), ()).typed("startup_s") == 22


def test_a_long_log_costs_no_memory(tmp_path: Path) -> None:
    """Two megabytes here; the command in `benchmarks/` reads fifty, and times it."""
    path = tmp_path / "long.log"
    access = b'(APIServer pid=1) INFO:     127.0.0.1:38982 - "POST /v1/chat/completions" 200 OK\n'
    path.write_bytes(DRAFT_LOG + access * (2_000_000 // len(access)))
    tracemalloc.start()
    try:
        assert vllm_audit(path).typed("max_num_scheduled_tokens") == 7168
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


def test_every_saying_of_a_timed_warning_keeps_its_stamp() -> None:
    lines = DRAFT_LOG.decode().splitlines(keepends=True)
    found = log_times(lines, VLLM.log_patterns())
    assert (found.first, found.last) == ("11-29 15:01:27", "11-29 15:02:50")
    kernels = [(line.split()[6], stamp[-2:]) for line, stamp in found.timed]
    assert kernels == [
        ("_compute_slot_mapping_kernel.", "48"),
        ("eagle_prepare_next_token_padded_kernel.", "48"),
        ("copy_and_expand_eagle_inputs_kernel.", "49"),
        ("eagle_step_slot_mapping_metadata_kernel.", "49"),
        ("rejection_greedy_sample_kernel.", "50"),
        ("eagle_prepare_inputs_padded_kernel.", "50"),
    ]
    # The audit keeps the same lines, so that one finds the other.
    kept = [warning.line for warning in audit_lines(lines, VLLM.log_patterns(), ()).warnings]
    assert {line for line, _ in found.timed} <= set(kept)
    # Two ranks say it, each in its second, and a launch further above is another one's.
    said = [line for line in lines if "rejection_greedy" in line]
    later = said[0].replace("15:02:50", "15:03:01")
    twice = log_times([*said, *lines, later], VLLM.log_patterns())
    assert [stamp for line, stamp in twice.timed if "rejection_greedy" in line] == [
        "11-29 15:02:50",
        "11-29 15:03:01",
    ]
