"""Which event loop drives the load: uvloop where it is installed, else asyncio's own."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any


def event_loop_options() -> dict[str, Any]:
    """Give anyio's backend options for the fastest loop that is here."""
    return {"use_uvloop": find_spec("uvloop") is not None}
