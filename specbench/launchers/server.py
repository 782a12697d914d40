"""A server that answers, however it came to life."""

from __future__ import annotations

from collections.abc import Mapping

import anyio
import attrs

from specbench.methods import Command


@attrs.define(kw_only=True)
class Server:
    """A server in service. `exit_code` is known once one that we started is gone."""

    base_url: str
    """Where it answers, without a slash at the end."""
    metrics_url: str | None
    """Where its counters are; None when nobody tells them."""
    model: str
    """What requests call the model."""
    headers: Mapping[str, str] = attrs.field(factory=dict)
    """Headers that every request needs, such as an authorization."""
    command: Command | None = None
    """How we started it; None for one that was running already."""
    pid: int | None = None
    exit_code: int | None = None
    ended: anyio.Event = attrs.field(factory=anyio.Event)
