"""Launch log and resolved configuration to an audit. Each fact keeps the line it came from.

A log is read line by line, so that its length costs time and no memory.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs

from specbench.facts import Audit, Fact, LogPattern, LogWarning
from specbench.log_facts import LogTimes
from specbench.properties import typed

LONGEST_LINE = 256 * 1024
"""Bytes of a line that is read. A longer one states nothing."""
ACCESS = " HTTP/1."
"""What nearly every line of a long log has: somebody asked the server. It states nothing."""
LONGEST_QUOTE = 300
"""Characters of a log line that a fact keeps. Of a longer one its head and the place are kept."""
HEAD_QUOTE, AROUND_QUOTE = 60, 40
MOST_WARNINGS = 50
"""Distinct warnings that an audit keeps."""
MOST_REMEMBERED = 1000
"""Distinct stating messages that are remembered: several processes state the same."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_TAG = r"(?:\([\w-]+ pid=\d+\)\s*)"
_TAGS_FIRST = re.compile(rf"^{_TAG}+")
_TAG_INSIDE = re.compile(r"\([\w-]+ pid=\d+\) ")
_TAGS_LAST = re.compile(rf"{_TAG}+$")
_HEADER = re.compile(
    r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) +(?P<stamp>\d\d-\d\d \d\d:\d\d:\d\d) \[[^\]]*\] ?"
)
_OPENING = re.compile(r"\^([A-Za-z_-]+) ")
_LEAP_YEAR = 2000
"""Log stamps have no year; this one has every day."""


def read_lines(path: Path) -> Iterator[str]:
    """Give the whole lines of a file, bytes that are no UTF-8 replaced.

    The last line without an end and lines of more than 256 KiB are left out: they may be cut, and a
    cut number is a wrong number.
    """
    with path.open("rb") as file:
        whole = True
        while piece := file.readline(LONGEST_LINE):
            ended = piece.endswith(b"\n")
            if ended and whole:
                yield piece.decode("utf-8", "replace")
            whole = ended


def messages(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Give what was said, without colours, process tags and headers, each with its time stamp.

    The stamp is `month-day hour:minute:second`, empty where a line has none. Several processes
    write to one stream, so that a line can hold two messages, or two tags.
    """
    for line in lines:
        if ACCESS in line and " [" not in line:
            continue
        if "\x1b" in line:
            line = _ANSI.sub("", line)  # noqa: PLW2901 - the same line without colours
        header = _HEADER.search(line)
        if header is None:
            if text := _TAGS_FIRST.sub("", line).strip():
                yield text, ""
            continue
        if line[0] != header[0][0] and (said := _untagged(line[: header.start()])):
            yield said, ""
        while following := " pid=" in line[header.end() :] and _HEADER.search(line, header.end()):
            yield _untagged(line[header.end() : following.start()]), header["stamp"]
            header = following
        said = line[header.end() :]
        if " pid=" in said:
            # What another process wrote behind it, without a header, is none of it.
            said = _TAG_INSIDE.split(said)[0]
        yield said.strip(), header["stamp"]


def _untagged(text: str) -> str:
    return _TAGS_FIRST.sub("", _TAGS_LAST.sub("", text)).strip()


def audit(log: str, patterns: Iterable[LogPattern], configured: Iterable[Fact]) -> Audit:
    """Give what a deployment really ran, from the text of its log."""
    lines = log.splitlines(keepends=True)
    whole = [line for line in lines if line.endswith(("\n", "\r"))]
    return audit_lines(whole, patterns, configured)


def audit_lines(
    lines: Iterable[str], patterns: Iterable[LogPattern], configured: Iterable[Fact]
) -> Audit:
    """Give what a deployment really ran, and the warnings that matter.

    Lines that several processes repeat count once. Of a log that holds several launches the last
    one counts.
    What the server states in its resolved configuration comes first; the log adds what that lacks,
    and what a worker decides after it (`LogPattern.decides`). Of several log lines for one fact the
    last one counts, unless its pattern says otherwise, since configuration is overridden downwards
    during the launch. A text that is none of its property's type states nothing.
    """
    logged: dict[str, Fact] = {}
    decided: set[str] = set()
    warnings: dict[tuple[str, str], LogWarning] = {}
    for pattern, match, first_stamp, stamp in _statements(lines, patterns):
        if pattern.begins:
            logged, decided, warnings = {}, set(), {}
        quote = _quoted(match)
        if pattern.warning:
            if len(warnings) < MOST_WARNINGS:
                warned = LogWarning(kind=pattern.fact, meaning=pattern.warning, line=quote)
                warnings.setdefault((pattern.fact, quote), warned)
            continue
        value = _value(pattern, match, first_stamp, stamp)
        if value is None or typed(pattern.fact, value) is None:
            continue
        found = Fact(name=pattern.fact, value=value, source=f"log: {quote}")
        logged[pattern.fact] = _kept(pattern, logged.get(pattern.fact), found)
        if pattern.decides:
            decided.add(pattern.fact)
    stated = {
        fact.name: fact
        for fact in configured
        if typed(fact.name, fact.value) is not None and fact.name not in decided
    }
    facts = {**logged, **stated}
    return Audit(
        facts=tuple(facts[name] for name in sorted(facts)), warnings=tuple(warnings.values())
    )


def log_times(lines: Iterable[str], patterns: Iterable[LogPattern]) -> LogTimes:
    """Give when a log says each of its timed warnings, those that it repeats too.

    Of a log that holds several launches the last one counts.
    """
    finders = _Finders(pattern for pattern in patterns if pattern.timed or pattern.begins)
    first = last = ""
    timed: list[tuple[str, str]] = []
    for text, stamp in messages(lines):
        first, last = first or stamp, stamp or last
        for pattern, match in finders.matching(text):
            if pattern.begins:
                first, timed = stamp, []
            else:
                timed.append((_quoted(match), stamp))
    return LogTimes(first=first, last=last, timed=tuple(timed))


def _statements(
    lines: Iterable[str], patterns: Iterable[LogPattern]
) -> Iterator[tuple[LogPattern, re.Match[str], str, str]]:
    """Give every pattern that a message matches, with the launch's first stamp and its own.

    A message that is repeated in a launch is given once.
    """
    finders = _Finders(patterns)
    stating: set[str] = set()
    first_stamp = ""
    for text, stamp in messages(lines):
        first_stamp = first_stamp or stamp
        if text in stating:
            continue
        for pattern, match in finders.matching(text):
            if pattern.begins:
                stating.clear()
                first_stamp = stamp
            elif len(stating) < MOST_REMEMBERED:
                stating.add(text)
            yield pattern, match, first_stamp, stamp


class _Finders:
    """Patterns by the first word of the messages that they can match.

    Nearly every line of a long log states nothing, and must cost next to nothing.
    """

    def __init__(self, patterns: Iterable[LogPattern]) -> None:
        self._by_word: dict[str, list[tuple[LogPattern, re.Pattern[str]]]] = defaultdict(list)
        self._anywhere: list[tuple[str, tuple[LogPattern, re.Pattern[str]]]] = []
        for pattern in patterns:
            finder = (pattern, re.compile(pattern.regex))
            opening = _OPENING.match(pattern.regex)
            if opening:
                self._by_word[opening[1]].append(finder)
            else:
                self._anywhere.append((pattern.literal, finder))

    def matching(self, text: str) -> list[tuple[LogPattern, re.Match[str]]]:
        likely = [finder for literal, finder in self._anywhere if literal in text]
        if worded := self._by_word.get(text.partition(" ")[0]):
            likely += worded
        if not likely:
            return []
        return [(pattern, match) for pattern, regex in likely if (match := regex.search(text))]


def _value(pattern: LogPattern, match: re.Match[str], first_stamp: str, stamp: str) -> str | None:
    """Give what a line says; None when it says nothing, such as a time between no two stamps."""
    if pattern.elapsed:
        return _seconds_between(first_stamp, stamp) if first_stamp and stamp else None
    if pattern.constant is not None:
        return pattern.constant
    said = match["value"]
    return said.replace(" ", "") if pattern.listed else said.replace(",", "")


def _quoted(match: re.Match[str]) -> str:
    """Give a line without control codes; of a long one its head and what stands at the value."""
    text = match.string
    if len(text) <= LONGEST_QUOTE:
        return _CONTROL.sub("", text)
    start, end = match.span("value") if "value" in match.re.groupindex else (0, match.end())
    start = max(start, end - LONGEST_QUOTE)
    if start <= HEAD_QUOTE + AROUND_QUOTE:
        return _CONTROL.sub("", f"{text[: max(end, HEAD_QUOTE)]} ...")
    return _CONTROL.sub("", f"{text[:HEAD_QUOTE]} ... {text[start - AROUND_QUOTE : end]} ...")


def _kept(pattern: LogPattern, earlier: Fact | None, found: Fact) -> Fact:
    """Give the fact that stays of two lines."""
    if earlier is None or pattern.keep == "last":
        return found
    if pattern.keep == "each":
        if found.value in earlier.value.split(" and "):
            return earlier
        value = f"{earlier.value} and {found.value}"
        return attrs.evolve(earlier, value=value, source=f"{earlier.source} | {found.source}")
    smaller = float(found.value) < float(earlier.value)
    return found if smaller == (pattern.keep == "least") else earlier


def _seconds_between(first: str, last: str) -> str:
    """Give the seconds between two stamps that know no year."""
    instants = [
        datetime.strptime(f"{_LEAP_YEAR}-{stamp}", "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
        for stamp in (first, last)
    ]
    passed = instants[1] - instants[0]
    if passed < timedelta(0):
        passed += timedelta(days=366)
    return f"{passed.total_seconds():g}"
