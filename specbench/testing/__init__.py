"""For the tests of plugin authors: a simulated server to talk to, and a check of a whole method.

`pytest_plugins = ["specbench.testing"]` gives the fixture `simulated_server`, a function that
starts servers which end with the test. Nothing else here needs pytest (PYTEST_DONT_REWRITE: there
is no assert for it to explain).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from specbench.testing.checking import CheckedMethod, check_method
from specbench.testing.serving import Driven, SimulatedServer, simulated_server

if TYPE_CHECKING:
    import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Give pytest the fixture (pytest's hook)."""
    import pytest

    class Fixtures:
        @pytest.fixture(name="simulated_server")
        def servers(self) -> Iterator[Callable[..., SimulatedServer]]:
            """Start simulated servers that end with the test."""
            with ExitStack() as stack:

                def start(**asked: Any) -> SimulatedServer:
                    return stack.enter_context(simulated_server(**asked))

                yield start

    config.pluginmanager.register(Fixtures(), f"{__name__}.fixtures")


__all__ = ["CheckedMethod", "Driven", "SimulatedServer", "check_method", "simulated_server"]
