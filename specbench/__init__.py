"""specbench decides with evidence whether speculative decoding should be switched on.

Names are imported on first use, so that `specbench --help` answers at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from specbench.hookspecs import hookimpl
    from specbench.methods import Confound, Counting, Expected, Launch, Method

    __version__: str

_HOMES = {
    "Confound": "specbench.methods",
    "Counting": "specbench.methods",
    "Expected": "specbench.methods",
    "Launch": "specbench.methods",
    "Method": "specbench.methods",
    "hookimpl": "specbench.hookspecs",
}

__all__ = ["Confound", "Counting", "Expected", "Launch", "Method", "__version__", "hookimpl"]


def __getattr__(name: str) -> Any:
    """Import a public name from its home."""
    import importlib

    if name == "__version__":
        # Kept: reading an installation's metadata takes 4 ms, and every verdict names the version.
        version = importlib.import_module("importlib.metadata").version("specbench")
        return globals().setdefault(name, version)
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'specbench' has no attribute {name!r}")
