"""Expositions of any shape give the delta that was written into them, or none: never a wrong one."""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from specbench.engines.known import ENGINES
from specbench.facts import CounterSnapshot
from specbench.judge import counters
from specbench.observe.metrics import parse

NAMES = ENGINES["vllm"].counters()
COUNTERS = (
    NAMES.generation_tokens,
    NAMES.preemptions,
    NAMES.prefix_queries,
    NAMES.prefix_hits,
    NAMES.drafts,
    NAMES.draft_tokens,
    NAMES.accepted_tokens,
)
Key = tuple[str, str, str]
"""Name, engine and position (empty where there is none)."""

counts = st.integers(0, 2**40)


@attrs.frozen
class Written:
    """What was written down: the counts of each series before and after, and the text of both."""

    before: dict[Key, int]
    after: dict[Key, int]
    texts: tuple[str, str]


@st.composite
def written(draw: st.DrawFn) -> Written:
    engines = [str(rank) for rank in range(draw(st.integers(1, 3)))]
    positions = [str(place) for place in range(draw(st.integers(1, 3)))]
    speculative = draw(st.booleans())
    keys: list[Key] = [
        (name, engine, "")
        for name in COUNTERS
        for engine in engines
        if speculative or name not in (NAMES.drafts, NAMES.draft_tokens, NAMES.accepted_tokens)
    ]
    if speculative:
        keys += [(NAMES.accepted_per_position, e, p) for e in engines for p in positions]
    before = {key: draw(counts) for key in keys}
    after = {key: before[key] + draw(counts) for key in keys}
    return Written(before, after, (draw(texts(before)), draw(texts(after))))


@st.composite
def texts(draw: st.DrawFn, values: dict[Key, Any]) -> str:
    lines = ["process_start_time_seconds 1700000000.25"]
    for (name, engine, position), value in values.items():
        labels = [f'engine="{engine}"', 'model_name="a \\"b\\" {c}, d=\\"e\\""']
        labels += [f'position="{position}"'] if position else []
        joined = ",".join(draw(st.permutations(labels)))
        number = draw(st.sampled_from((f"{value}", f"{float(value)!r}", f"{float(value):.20e}")))
        lines.append(f"{name}{{{joined}}} {number}")
        # The instant at which the series was made, which is no count.
        lines.append(f"{name.removesuffix('_total')}_created{{{joined}}} 1.7e+09")
    lines = draw(st.permutations(lines))
    if draw(st.booleans()):
        lines = [
            '# HELP vllm:generation_tokens Number of tokens: any {text="1"} 7',
            "# a comment",
            "",
            *lines,
        ]
    end = draw(st.sampled_from(("\n", "\r\n")))
    return end.join(lines) + end


def snapshots(found: Written) -> tuple[CounterSnapshot, CounterSnapshot]:
    return parse(found.texts[0]), parse(found.texts[1])


def passed(found: Written, name: str, position: str = "") -> int:
    return sum(
        found.after[key] - found.before[key]
        for key in found.after
        if key[0] == name and key[2] == position
    )


@settings(max_examples=80, deadline=None)
@given(found=written())
def test_every_delta_is_the_one_that_was_written(found: Written) -> None:
    before, after = snapshots(found)
    assert [v.outcome for v in counters.rejections(before, after, NAMES)] == ["pass"]
    delta = counters.difference(before, after, NAMES)
    assert delta.generation_tokens == passed(found, NAMES.generation_tokens)
    assert delta.preemptions == passed(found, NAMES.preemptions)
    assert delta.prefix_hits == passed(found, NAMES.prefix_hits)
    if (NAMES.drafts, "0", "") not in found.after:
        assert delta.drafts is None
        return
    assert delta.drafts == passed(found, NAMES.drafts)
    assert delta.draft_tokens == passed(found, NAMES.draft_tokens)
    assert delta.accepted_tokens == passed(found, NAMES.accepted_tokens)
    places = sorted({key[2] for key in found.after if key[2]})
    assert delta.accepted_per_position == tuple(
        passed(found, NAMES.accepted_per_position, place) for place in places
    )


DAMAGES = ("reset", "nan", "infinite", "huge", "fraction", "negative", "vanished", "appeared")


@settings(max_examples=150, deadline=None)
@given(found=written(), damage=st.sampled_from(DAMAGES), data=st.data())
def test_damage_to_any_series_is_told_and_never_summed(
    found: Written, damage: str, data: st.DataObject
) -> None:
    key = data.draw(st.sampled_from(sorted(found.after)), label="series")
    before: dict[Key, Any] = dict(found.before)
    after: dict[Key, Any] = dict(found.after)
    if damage == "reset":
        before[key], after[key] = after[key] + 1, before[key]
    elif damage == "vanished":
        del after[key]
    elif damage == "appeared":
        del before[key]
    else:
        values = {
            "nan": float("nan"),
            "infinite": float("inf"),
            "huge": 1e300,
            "fraction": before[key] + 0.5,
            "negative": -1.0,
        }
        side = data.draw(st.sampled_from((before, after)), label="side")
        side[key] = values[damage]
    snapshot = [parse(data.draw(texts(side))) for side in (before, after)]
    ruled = counters.rejections(snapshot[0], snapshot[1], NAMES)
    assert {verdict.outcome for verdict in ruled} == {"fail"}


@given(st.text(max_size=200))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        found = parse(text)
    except ValueError:
        return
    assert all(isinstance(value, float) for value in found.series.values())


def test_a_process_that_was_started_anew_is_told() -> None:
    start = 'process_start_time_seconds {}\nvllm:generation_tokens_total{{engine="0"}} 5\n'
    ruled = counters.rejections(parse(start.format(1)), parse(start.format(2)), NAMES)
    assert [verdict.observed for verdict in ruled] == [
        "the server process was started anew in the window"
    ]


def test_a_series_that_one_engine_lacks_is_told() -> None:
    lines = [f'vllm:generation_tokens_total{{engine="{rank}"}} 5' for rank in "01"]
    lines += [
        f'{name}{{engine="0"}} 1'
        for name in (NAMES.drafts, NAMES.draft_tokens, NAMES.accepted_tokens)
    ]
    lines += [f'{NAMES.accepted_per_position}{{engine="0",position="0"}} 1']
    text = "\n".join(lines) + "\n"
    ruled = counters.rejections(parse(text), parse(text), NAMES)
    assert {verdict.outcome for verdict in ruled} == {"fail"}
    assert "for 1 of 2 engines" in ruled[0].observed


def test_what_a_server_does_not_count_is_unknown_and_not_zero() -> None:
    text = 'vllm:generation_tokens_total{engine="0"} 5\n'
    delta = counters.difference(parse(text), parse(text), NAMES)
    assert (delta.preemptions, delta.prefix_queries, delta.prefix_hits) == (None, None, None)
