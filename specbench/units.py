"""Units of time and how numbers are shown. Units end names: `ttft_s`, `sent_ns`."""

from __future__ import annotations

NS_PER_S = 1_000_000_000


def seconds(duration_ns: float) -> float:
    """Give a duration in nanoseconds as seconds."""
    return duration_ns / NS_PER_S


def nanoseconds(duration_s: float) -> int:
    """Give a duration in seconds as whole nanoseconds."""
    return round(duration_s * NS_PER_S)


def duration_text(duration_s: float) -> str:
    """Give a duration as a person says it: `850 ms`, `12.3 s`, `4 min 10 s`, `2 h 05 min`."""
    if duration_s < 1:
        return f"{duration_s * 1000:.0f} ms"
    if duration_s < 60:  # noqa: PLR2004 - seconds in a minute
        return f"{duration_s:.1f} s"
    minutes, rest_s = divmod(round(duration_s), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest_s:02d} s"
