from __future__ import annotations

from specbench.facts import Fact, LogPattern
from specbench.observe.logs import audit, messages

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
    assert list(messages(log)) == ["Same.", "Other."]


def test_colours_and_broken_bytes_are_survived() -> None:
    log = (
        b"\x1b[0;36m(EngineCore pid=2)\x1b[0;0m INFO 11-29 15:01:48 [k.py:1] "
        b"GPU KV cache size: 1,636,240 tokens\n\xff\xfe\n"
    )
    found = audit(log.decode(errors="replace"), PATTERNS, ())
    assert found.value("tokens") == "1636240"


def test_a_fact_keeps_the_line_it_came_from() -> None:
    (fact,) = audit("INFO 11-29 15:01:48 [k.py:1] KV cache size: 9 tokens", PATTERNS, ()).facts
    assert fact.source == "log: KV cache size: 9 tokens"


def test_a_later_line_overrides_an_earlier_one() -> None:
    assert audit("Mode is on.\nMode is off.\n", PATTERNS, ()).value("mode") == "False"


def test_the_resolved_configuration_comes_before_the_log() -> None:
    configured = (Fact(name="mode", value="False", source="server_info: x"),)
    assert audit("Mode is on.\n", PATTERNS, configured).value("mode") == "False"


def test_what_no_source_states_is_unknown() -> None:
    assert audit("nothing here\n", PATTERNS, ()).value("mode") is None
