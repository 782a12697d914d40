"""A line of a workload file, as frozen values: the truth of its JSON Schema, as in `model.py`."""

from __future__ import annotations

from typing import Literal

import attrs

from specbench.experiment.model import NAME_PATTERN
from specbench.experiment.said import said


@attrs.frozen(kw_only=True)
class Message:
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"] = attrs.field(metadata=said("Who speaks."))
    content: str = attrs.field(metadata=said("What is said.", minLength=1))


@attrs.frozen(kw_only=True)
class Turn:
    """What the user says in one turn of a conversation, and whose answer the next one follows."""

    user: str = attrs.field(metadata=said("What the user says.", minLength=1))
    assistant: str | None = attrs.field(
        default=None,
        metadata=said(
            "The answer that later turns build on: a fixed script. The served one when left out.",
            minLength=1,
        ),
    )


@attrs.frozen(kw_only=True)
class Prompt:
    """A line of a workload file."""

    id: str = attrs.field(metadata=said("Unique in the file.", pattern=NAME_PATTERN))
    stratum: str = attrs.field(
        metadata=said("The part of the workload that is analysed on its own.", pattern=NAME_PATTERN)
    )
    messages: tuple[Message, ...] = attrs.field(
        default=(), metadata=said("The prompt, or what stands before its turns.", minItems=1)
    )
    turns: tuple[Turn, ...] = attrs.field(
        default=(), metadata=said("A conversation: one request a turn, in order.", minItems=1)
    )
    max_tokens: int = attrs.field(
        metadata=said("Cap of the output, in tokens; of a conversation's turns each.", minimum=1)
    )
    source: str = attrs.field(metadata=said("Where the text comes from.", minLength=1))
    licence: str = attrs.field(metadata=said("SPDX licence of the text.", minLength=1))
    arrival_s: float | None = attrs.field(
        default=None,
        metadata=said("When it arrived in its source, in seconds from the start.", minimum=0),
    )
    reference: tuple[str, ...] = attrs.field(
        default=(), metadata=said("Answers to score against. Kept and never sent.", minItems=1)
    )

    def opening(self) -> tuple[Message, ...]:
        """Give the messages of the first request."""
        if not self.turns:
            return self.messages
        return (*self.messages, Message(role="user", content=self.turns[0].user))
