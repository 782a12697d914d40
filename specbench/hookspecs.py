"""The one hook of specbench."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from specbench.methods import Method

hookspec = pluggy.HookspecMarker("specbench")
hookimpl = pluggy.HookimplMarker("specbench")


@hookspec
def specbench_methods() -> Iterable[Method[Any]]:
    """Give the methods of a plugin. Called once, when specbench starts.

    Example:
        A module named in the entry-point group `specbench`::

            from specbench import hookimpl

            @hookimpl
            def specbench_methods():
                yield MyMethod()

    Returns:
        Method objects. Two distributions that give a method of one name are refused, both named.
    """
    raise AssertionError("pluggy calls implementations, never the specification")
