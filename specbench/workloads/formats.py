"""Formats of other people's prompt files, each one function from a row to what it says. Pure.

Field names as published by FastChat and Spec-Bench (question.jsonl), OpenAI (HumanEval; batches),
ShareGPT, and vLLM's custom data set.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from specbench.experiment.prompt import Message, Turn

Value = Mapping[str, Any]
PROMPT_NAMES = ("prompt", "question", "instruction", "input", "text")
DOCUMENT_NAMES = ("document", "text", "article")
ID_NAMES = ("id", "task_id", "question_id", "custom_id", "_id")
KEPT_OF_REQUESTS = {"messages", "max_tokens", "max_completion_tokens", "custom_id", "id", "stream"}
ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant"}


class Foreign(ValueError):  # noqa: N818 - it says what the row is
    """A row that is none of its format, with the reason."""


@attrs.frozen(kw_only=True)
class Draft:
    """What a row says, before policies and names."""

    row_id: str | None
    category: str | None
    messages: tuple[Message, ...] = ()
    turns: tuple[Turn, ...]
    """All turns with the answers that the source has."""
    max_tokens: int | None = None
    reference: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    """Settings of the row that a workload does not have, such as a temperature."""
    licence: str | None = None
    arrival_s: float | None = None


@attrs.frozen(kw_only=True)
class Format:
    """One format: how it is told, read and put into words."""

    name: str
    fits: Callable[[Value], bool]
    """Whether a row looks like it."""
    read: Callable[[Value], Draft]
    """Raises Foreign."""
    template: str = "{prompt}"
    """What a request says; `{prompt}` stands for the row's own text."""


def question(value: Value) -> Draft:
    """Read MT-Bench, Spec-Bench and EAGLE: question_id, category, turns, reference."""
    turns = value.get("turns", value.get("prompt"))
    if not isinstance(turns, list) or not turns:
        raise Foreign("turns are no list of texts")
    return Draft(
        row_id=_id(value, "question_id", "prompt_id"),
        category=_text(value, "category", default="question"),
        turns=tuple(Turn(user=_said(turn, "a turn")) for turn in turns),
        reference=_reference(value.get("reference")),
    )


def humaneval(value: Value) -> Draft:
    """Read HumanEval: task_id, prompt, canonical_solution."""
    return Draft(
        row_id=_id(value, "task_id"),
        category="humaneval",
        turns=(Turn(user=_text(value, "prompt")),),
        reference=_reference(value.get("canonical_solution")),
    )


def sharegpt(value: Value) -> Draft:
    """Read ShareGPT: conversations of from and value. The recorded answers are kept."""
    said = [
        (ROLES.get(str(_object(item).get("from")), item.get("from")), item.get("value"))
        for item in _list(value, "conversations")
    ]
    return _conversation(said, _id(value, "id"), "sharegpt")


def openai(value: Value) -> Draft:
    """Read OpenAI-style rows: messages, or those of a batch's body. A last answer is reference."""
    body = value.get("body", value)
    said = [
        (_object(item).get("role"), _content(item.get("content")))
        for item in _list(_object(body), "messages")
    ]
    draft = _conversation(said, _id(value, "custom_id", "id"), "openai")
    cap = body.get("max_completion_tokens", body.get("max_tokens"))
    settings = tuple(sorted(body.keys() - KEPT_OF_REQUESTS))
    return attrs.evolve(draft, max_tokens=_cap(cap), ignored=settings)


def custom(value: Value) -> Draft:
    """Read vLLM's custom rows: prompt, and an output length where there is one."""
    cap = value.get("output_tokens", value.get("output_tokens_count"))
    return Draft(
        row_id=_id(value, *ID_NAMES),
        category=_text(value, "category", default="custom"),
        turns=(Turn(user=_text(value, "prompt")),),
        max_tokens=_cap(cap),
    )


def document(value: Value) -> Draft:
    """Read a plain document."""
    name = next((name for name in DOCUMENT_NAMES if name in value), DOCUMENT_NAMES[0])
    return Draft(
        row_id=_id(value, *ID_NAMES), category="summary", turns=(Turn(user=_text(value, name)),)
    )


def table(columns: Mapping[str, str]) -> Callable[[Value], Draft]:
    """Give the reading of rows whose columns are mapped, such as {"prompt": "question"}."""

    def read(value: Value) -> Draft:
        known = (columns.get("prompt"), *PROMPT_NAMES)
        name = next((name for name in known if name is not None and name in value), None)
        if name is None:
            raise Foreign(
                f"no column {known[0] or 'of a prompt'!r} among {', '.join(map(str, value))}; "
                "write --column prompt=NAME"
            )
        return Draft(
            row_id=_id(value, columns.get("id", "id")),
            category=_text(value, columns.get("stratum", "category"), default="table"),
            turns=(Turn(user=_text(value, name)),),
            max_tokens=_cap(value.get(columns.get("max_tokens", "max_tokens"))),
            reference=_reference(value.get(columns.get("reference", ""))),
            arrival_s=_instant(value.get(columns.get("arrival_s", "arrival_s"))),
        )

    return read


FORMATS = (
    Format(
        name="question",
        fits=lambda v: (
            isinstance(v.get("turns"), list)
            or (isinstance(v.get("prompt"), list) and "prompt_id" in v)
        ),
        read=question,
    ),
    Format(
        name="humaneval",
        fits=lambda v: {"task_id", "prompt", "entry_point"} <= v.keys(),
        read=humaneval,
        template="Complete this Python function. Write only code.\n\n{prompt}",
    ),
    Format(name="sharegpt", fits=lambda v: "conversations" in v, read=sharegpt),
    Format(
        name="openai",
        fits=lambda v: "messages" in v or "messages" in (v.get("body") or ()),
        read=openai,
    ),
    Format(
        name="documents",
        fits=lambda v: "prompt" not in v and any(name in v for name in DOCUMENT_NAMES),
        read=document,
        template="Summarise the text below in about 200 words. Keep its names, numbers and "
        "the words of its main statements.\n\n{prompt}",
    ),
    Format(name="custom", fits=lambda v: isinstance(v.get("prompt"), str), read=custom),
)
"""In the order in which they are tried on a file's first row."""


def _conversation(said: list[tuple[Any, Any]], row_id: str | None, category: str) -> Draft:
    """Give alternating words of user and assistant as turns; a system's come first."""
    before: list[Message] = []
    while said and said[0][0] == "system":
        before.append(Message(role="system", content=_said(said.pop(0)[1], "a message")))
    if not said or said[0][0] != "user":
        raise Foreign(f"the first to speak is {said[0][0] if said else 'nobody'}, not the user")
    turns: list[Turn] = []
    for place, (role, content) in enumerate(said):
        wanted = ("user", "assistant")[place % 2]
        if role != wanted:
            raise Foreign(f"message {place + 1} is of {role!r}, where {wanted} should speak")
        words = _said(content, f"message {place + 1}")
        if wanted == "user":
            turns.append(Turn(user=words))
        else:
            turns[-1] = attrs.evolve(turns[-1], assistant=words)
    last = turns[-1].assistant
    return Draft(
        row_id=row_id,
        category=category,
        messages=tuple(before),
        turns=(*turns[:-1], Turn(user=turns[-1].user)),
        reference=(last,) if last else (),
    )


def _content(value: Any) -> Any:
    """Give the text of a content that may come in parts."""
    if not isinstance(value, list):
        return value
    kinds = {part.get("type") for part in value if isinstance(part, dict)}
    if kinds - {"text"}:
        raise Foreign(f"a message holds {', '.join(sorted(map(str, kinds - {'text'})))}, not text")
    return "".join(str(part.get("text", "")) for part in value)


def _list(value: Value, name: str) -> list[Any]:
    found = value.get(name)
    if not isinstance(found, list) or not found:
        raise Foreign(f"{name} is no list of messages")
    return found


def _object(value: Any) -> Value:
    if not isinstance(value, dict):
        raise Foreign("a message is no object")
    return value


def _said(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise Foreign(f"{what} has no text")
    return value


def _text(value: Value, name: str, *, default: str | None = None) -> str:
    found = value.get(name)
    if found is None and default is not None:
        return default
    return _said(found, name)


def _id(value: Value, *names: str) -> str | None:
    found = next((value[name] for name in names if value.get(name) is not None), None)
    return None if found is None else str(found)


def _cap(value: Any) -> int | None:
    if value is None or value == "":
        return None
    try:
        cap = int(value)
    except (TypeError, ValueError):
        raise Foreign(f"an output length of {value!r}") from None
    if cap < 1:
        raise Foreign(f"an output length of {cap}")
    return cap


def _instant(value: Any) -> float | None:
    if value is None or value == "":
        return None
    try:
        instant_s = float(value)
    except (TypeError, ValueError):
        instant_s = math.nan
    if not (math.isfinite(instant_s) and instant_s >= 0):
        raise Foreign(f"an arrival at {value!r}, which is no number of seconds")
    return instant_s


def _reference(value: Any) -> tuple[str, ...]:
    values = value if isinstance(value, list) else [value]
    return tuple(item for item in values if isinstance(item, str) and item)
