"""What passes between a drive and its client processes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs

from specbench.traffic.loops import LoadPoint
from specbench.traffic.parts import Part
from specbench.traffic.requests import TimedRequest

READY, STOP = b"ready\n", b"stop\n"


@attrs.frozen(kw_only=True)
class Share:
    """What one worker drives."""

    requests: Sequence[TimedRequest]
    point: LoadPoint


@attrs.frozen(kw_only=True)
class Done:
    """What one worker gives back."""

    part: Part
    clock: str
    """Which boot of which machine its instants count from."""


def boot() -> str:
    """Give the name of this boot of this machine: CLOCK_MONOTONIC means nothing outside it."""
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text(encoding="ascii").strip() if path.exists() else "unknown"
