"""Every error that specbench raises, and the exit code of each.

A bad result is never an exception: it is a stored verdict. An exception means that the asked thing
could not be done.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs


class SpecbenchError(Exception):
    """Something that a person can act on. Shown as one message, without a traceback."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  {self.hint}" if self.hint else self.message


@attrs.frozen
class Problem:
    """One thing that is wrong with what a person wrote, and what to write instead."""

    message: str
    hint: str = ""
    where: str = ""
    """`file:line: path`, as far as it is known."""
    source: str = ""
    """Where it is known from that the engine's version refuses this, such as
    `vllm/config/speculative.py, 0.23+`. It makes an arm unservable and no mistake of the file."""

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        text = f"{text}; {self.hint}" if self.hint else text
        return f"{text} ({self.source})" if self.source else text


class ExperimentError(SpecbenchError):
    """The experiment, a workload or the arguments cannot be used. Carries every problem found."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        count = len(self.problems)
        closing = f"{count} problem{'s' if count != 1 else ''}; nothing was run"
        super().__init__("\n".join([*map(str, self.problems), closing]))


class PluginError(SpecbenchError):
    """A method plugin cannot be used. The message names its distribution."""

    exit_code = 3


class DeploymentError(SpecbenchError):
    """A server could not be launched or did not stay up. The message holds the cause it logged."""

    exit_code = 4

    def __init__(self, message: str, *, kind: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.kind = kind


class MachineError(SpecbenchError):
    """This machine cannot measure what is asked of it."""

    exit_code = 5


class StoreError(SpecbenchError):
    """The result store or a run folder cannot be read or written as asked."""

    exit_code = 6
