"""What specbench asks of a server family: argv, log patterns, metric names, where its config is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from specbench.errors import Problem
from specbench.experiment.model import Flag, Target
from specbench.facts import Cause, CounterNames, Fact, LogPattern
from specbench.methods import Command, Launch


@attrs.frozen
class Setting:
    """How a server is launched with one serving property."""

    word: str
    """What stands for it in the name of an arm."""
    launch: Launch


class Engine(ABC):
    """One server family. It renders and reads; it opens nothing."""

    name: ClassVar[str]
    simulated: ClassVar[bool]
    """Whether its numbers are those of a cost model, and are marked so everywhere."""
    distributions: ClassVar[tuple[str, ...]]
    """Python distributions whose installed version is the engine's."""
    newest: ClassVar[str]
    """The newest version that this specbench knows."""
    served_name = "target"
    """What requests call the model."""
    config_path = "/server_info?config_format=json"
    """Where a running server tells its resolved configuration."""
    metrics_path = "/metrics"
    chat_path = "/v1/chat/completions"
    without_prefix_cache: ClassVar[Mapping[str, Flag]] = {}
    """Flags that serve without a prefix cache; empty for an engine that has none."""

    def per_request_metrics(self, target: Target) -> Launch | None:  # noqa: ARG002
        """Give how a speculative server tells the acceptance of each request; None if not."""
        return None

    def drafts_with_logprobs(self, target: Target) -> bool:  # noqa: ARG002
        """Tell whether a request that asks for log-probabilities is drafted like any other."""
        return True

    @abstractmethod
    def check(self, target: Target, launch: Launch) -> tuple[Problem, ...]:
        """Give what is wrong; with its `source` what this version of the engine would refuse."""

    @abstractmethod
    def command(self, target: Target, launch: Launch, python: str) -> Command:
        """Give the command that serves, with `{port}` and `{scratch}` left open."""

    @abstractmethod
    def setting(self, fact: str, value: str) -> Setting | None:
        """Give how a baseline is launched with a serving property; None where it cannot be."""

    @abstractmethod
    def log_patterns(self) -> tuple[LogPattern, ...]:
        """Give the lines of a launch log that state facts."""

    @abstractmethod
    def config_facts(self, config: Mapping[str, Any]) -> tuple[Fact, ...]:
        """Give the facts of the resolved configuration."""

    @abstractmethod
    def counters(self) -> CounterNames:
        """Give the names of its metrics."""

    @abstractmethod
    def cause(self, log: str) -> Cause:
        """Give the cause of a failed or ended server from its log, past the generic last line."""
