"""Launch log and resolved configuration to an audit. Each fact keeps the line it came from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from specbench.facts import Audit, Fact, LogPattern

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_PREFIX = re.compile(
    r"^(?:\([\w-]+ pid=\d+\)\s+)*"
    r"(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s+(?:\d\d-\d\d \d\d:\d\d:\d\d\s+)?\[[^\]]*\]\s?)?"
)
LONGEST_QUOTE = 300
"""Characters of a log line that a fact keeps."""


def messages(log: str) -> Iterator[str]:
    """Give the message of each line, without colours and process prefix, each text once.

    Several processes of one server print the same configuration lines.
    """
    seen: set[str] = set()
    for line in log.splitlines():
        message = _PREFIX.sub("", _ANSI.sub("", line)).strip()
        if message and message not in seen:
            seen.add(message)
            yield message


def audit(log: str, patterns: Iterable[LogPattern], configured: Iterable[Fact]) -> Audit:
    """Give what a deployment really ran.

    What the server states in its resolved configuration comes first; the log adds what that lacks.
    Of several log lines for one fact the last one counts, since configuration is overridden
    downwards during the launch.
    """
    facts = {fact.name: fact for fact in configured}
    logged: dict[str, Fact] = {}
    compiled = [(pattern, re.compile(pattern.regex)) for pattern in patterns]
    for message in messages(log):
        for pattern, regex in compiled:
            match = regex.search(message)
            if match:
                value = pattern.constant or match["value"].replace(",", "")
                logged[pattern.fact] = Fact(
                    name=pattern.fact, value=value, source=f"log: {message[:LONGEST_QUOTE]}"
                )
    return Audit(facts=tuple({**logged, **facts}[name] for name in sorted({**logged, **facts})))
