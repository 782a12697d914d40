from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specbench.traffic import plain_reads
from specbench.traffic.plain_reads import leading_choices
from tests.traffic.faulty_server import DONE, END, ROLE, USAGE, chunk, event

PLAIN = re.compile(rb"([0-9a-f]+)\r\ndata: ([^\r\n]*)\n\n\r\n")
SOME = {
    "plain": chunk(event("a")),
    "longer": chunk(event("a word", ids="[1,2]")),
    "no ids": chunk(event("b", ids="null")),
    "last": chunk(event("", finish='"stop"')),
    "role": chunk(ROLE),
    "usage": chunk(USAGE),
    "done": chunk(DONE),
    "end": END,
    "another chunk's size": chunk(event("ab"))[:2] + chunk(event("a"))[2:],
    "no end of a chunk": chunk(event("a"))[:-2] + b"xx",
    "an end of an event too few": chunk(event("a"))[:-4] + b"x\n\r\n",
    "two events": chunk(event("a") + event("b")),
    "a line end in the JSON": chunk(event("a").replace(b'":[', b'":\n[', 1)),
    "two values": chunk(event("a")[:-2] + b"," + event("b")[6:]),
    "half a value": chunk(b'data: {"choices":[{"delta":\n\n'),
    "not its start": chunk(event("a"))[1:],
}


def said(read: bytes) -> tuple[str, list[int] | None] | None:
    """Give what a plain read adds, by other means than the code; None when it is not plain."""
    framed = PLAIN.fullmatch(read)
    if framed is None or int(framed[1], 16) != len(b"data: ") + len(framed[2]) + len(b"\n\n"):
        return None
    try:
        told = json.loads(framed[2])
    except ValueError:
        return None
    choices = told.get("choices", [])
    if len(choices) != 1 or told.get("usage") or choices[0].get("finish_reason"):
        return None
    content = choices[0]["delta"].get("content")
    return (content, choices[0].get("token_ids")) if content else None


@given(st.lists(st.sampled_from(sorted(SOME)), max_size=12), st.integers(0, 3))
def test_exactly_the_leading_plain_reads_are_told(names: list[str], first: int) -> None:
    reads = [SOME[name] for name in names]
    expected = []
    for read in reads[first:]:
        if (found := said(read)) is None:
            break
        expected.append(found)
    choices = leading_choices(reads, first)
    assert [(one.delta.content, one.token_ids) for one in choices] == expected


def test_plain_reads_are_told_with_their_tokens() -> None:
    reads = [SOME["plain"], SOME["longer"], SOME["no ids"], SOME["last"]]
    told = [(one.delta.content, one.token_ids) for one in leading_choices(reads, 0)]
    assert told == [("a", [1]), ("a word", [1, 2]), ("b", None)]


def test_reads_behind_one_that_is_not_plain_are_not_put_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A reasoning stream holds no plain read: each would put all behind it together again."""
    together: list[int] = []
    monkeypatch.setattr(plain_reads, "_together", lambda reads: together.append(len(reads)))
    reasoning = chunk(event("a").replace(b"content", b"reasoning"))
    assert leading_choices([reasoning] * 40, 0) == []
    assert together == []
