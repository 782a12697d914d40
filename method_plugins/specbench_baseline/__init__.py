"""Plain serving: what every other method is compared with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from specbench import Counting, Expected, Launch, Method, hookimpl
from specbench.experiment.model import Target


@attrs.frozen(kw_only=True)
class BaselineOptions:
    """The baseline has no options."""


class Baseline(Method[BaselineOptions]):
    """No speculation."""

    name = "baseline"
    options = BaselineOptions

    def launch(self, options: BaselineOptions, target: Target) -> Launch:  # noqa: ARG002
        """Add nothing to the launch."""
        return Launch()

    def expected(self, options: BaselineOptions, target: Target) -> Expected:  # noqa: ARG002
        """Expect a server without speculation."""
        return Expected(methods=())

    def counting(self, options: BaselineOptions, target: Target) -> Counting | None:  # noqa: ARG002
        """Have no speculative counters."""
        return None


@hookimpl
def specbench_methods() -> Iterable[Method[Any]]:
    """Give the baseline."""
    yield Baseline()
