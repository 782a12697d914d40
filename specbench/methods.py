"""The contract of a method plugin: everything that a plugin author sees.

A method is a name, a frozen attrs class of options, and pure functions. It touches no clock, socket
or store, so it is tested with no server and no GPU.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Literal, TypeVar

import attrs

from specbench.errors import Problem
from specbench.experiment.model import Target

OptionsT = TypeVar("OptionsT")


@attrs.frozen(kw_only=True)
class Launch:
    """What a method adds to the launch of its target."""

    speculation: Mapping[str, Any] = attrs.field(factory=dict)
    """Fields of the engine's speculative configuration. Empty: no speculation.
    The engine renders them and refuses a field that its version does not know."""
    arguments: tuple[str, ...] = ()
    """More command-line arguments."""
    environment: Mapping[str, str] = attrs.field(factory=dict)
    """More environment variables."""


@attrs.frozen(kw_only=True)
class Command:
    """A finished server command. `{port}` and `{scratch}` in it are filled in at launch."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]

    def filled(self, *, port: int, scratch: str) -> Command:
        """Give the command with its placeholders filled in."""

        def fill(text: str) -> str:
            return text.replace("{port}", str(port)).replace("{scratch}", scratch)

        return Command(
            argv=tuple(map(fill, self.argv)),
            environment={key: fill(value) for key, value in self.environment.items()},
        )


@attrs.frozen(kw_only=True)
class Expected:
    """What the server must say about itself for the arm to count as in effect."""

    methods: tuple[str, ...]
    """Resolved method names that count as this one. Empty: no speculation at all."""
    drafter: str | None = None
    """The draft model or head that must be resolved."""
    longest_draft: int = 0
    """Most tokens of a draft."""
    depth: Literal["constant", "by_batch_size", "per_step"] = "constant"
    """How the draft's length is decided."""
    properties: Mapping[str, str] = attrs.field(factory=dict)
    """Other facts that the audit must state so, such as the draft's parallelism."""


@attrs.frozen(kw_only=True)
class Confound:
    """A serving property that a method is known to change besides speculating."""

    fact: str
    """Name of the audit fact, such as `async_scheduling`."""
    meaning: str
    """What the difference means for a comparison with the baseline."""
    value: str | None = None
    """What the arm's audit will state; None where it cannot be known before the launch. With
    `design.equalise` the baseline is launched once more with it."""


@attrs.frozen(kw_only=True)
class Counting:
    """How the engine's speculative counters behave under a method."""

    every_step_drafts: bool
    """False when a step may go undrafted, as with n-gram without a match. Then tokens per step,
    not the acceptance length, bounds the gain."""
    full_depth: bool
    """True when every draft has exactly the longest length, so that drafted = drafts x longest."""


def release(target: Target) -> tuple[int, int] | None:
    """Give major and minor of the target's engine version; None where it is not known."""
    match = re.match(r"(\d+)\.(\d+)", target.version or "")
    return (int(match[1]), int(match[2])) if match else None


class Method(ABC, Generic[OptionsT]):
    """One way to serve: plain, or with some kind of speculative decoding."""

    name: ClassVar[str]
    """What `method:` says in an experiment."""
    options: type[OptionsT]
    """Frozen attrs class. Its fields are the arm's keys; their schema is derived."""

    def check(self, options: OptionsT, target: Target) -> tuple[Problem, ...]:  # noqa: ARG002
        """Give what is wrong with these options on this target, before anything is launched.

        A problem with a `source` is a known refusal of the engine's version: the arm is planned as
        unservable. Any other refuses the experiment.
        """
        return ()

    def assets(self, options: OptionsT) -> tuple[str, ...]:  # noqa: ARG002
        """Give checkpoints whose configuration and tokenizer are digested into the provenance."""
        return ()

    @abstractmethod
    def launch(self, options: OptionsT, target: Target) -> Launch:
        """Give what this method adds to the launch."""

    @abstractmethod
    def expected(self, options: OptionsT, target: Target) -> Expected:
        """Give what the server must say for the arm to count as in effect."""

    def confounds(self, options: OptionsT, target: Target) -> tuple[Confound, ...]:  # noqa: ARG002
        """Give the serving properties that this method is known to change on this engine."""
        return ()

    @abstractmethod
    def counting(self, options: OptionsT, target: Target) -> Counting | None:
        """Give how counters behave, or None without speculation."""

    def caveats(self, options: OptionsT) -> tuple[str, ...]:  # noqa: ARG002
        """Give warnings shown beside every number, such as synthetic acceptance."""
        return ()
