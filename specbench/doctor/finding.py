"""What a look at one thing gave."""

from __future__ import annotations

from typing import Literal

import attrs

State = Literal["ok", "warn", "fail"]


@attrs.frozen
class Finding:
    """One thing that was looked at."""

    name: str
    state: State
    """warn: runs work, but may not do what people expect. fail: runs cannot work."""
    said: str
    """What was seen."""
    remedy: str = ""
    """What to do about it. Empty when it is ok."""
