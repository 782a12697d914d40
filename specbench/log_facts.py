"""What a server's log says of times: whole seconds of its own clock, without year and time zone."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class LogTimes:
    """Stamps of a launch log, each `month-day hour:minute:second`."""

    first: str
    """Of the first message that has one; empty where none has."""
    last: str
    timed: tuple[tuple[str, str], ...]
    """Each warning whose time matters, as often as it was said: its line and its stamp."""


@attrs.frozen(kw_only=True)
class Fell:
    """Where the sayings of one line fell, among the measured windows of a deployment."""

    inside: tuple[str, ...] = ()
    """Cells within whose window it was said."""
    perhaps: tuple[str, ...] = ()
    """Cells whose window begins or ends within the second of a stamp."""
    unknown: bool = False
    """Some saying has no stamp, or a stamp that cannot be placed."""

    def __str__(self) -> str:
        """Give it in words."""
        parts = [f"inside the window of {', '.join(self.inside)}"] if self.inside else []
        if self.perhaps:
            parts.append(f"perhaps inside the window of {', '.join(self.perhaps)}")
        if self.unknown:
            parts.append("unknown")
        return "; ".join(parts) or "between measured windows"
