"""Faults that the simulated server shows on demand, so that a verdict can be seen to follow. Pure.

Written as NAME=NUMBER, or METHOD:NAME=NUMBER for the arms of one method: in `target.flags.fault` (a
list), or in `target.env.SPECBENCH_FAULTS` (with commas between).
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

ENVIRONMENT = "SPECBENCH_FAULTS"

OUT_OF_MEMORY = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 139.80 GiB of which 1.25 GiB is free."
)
FATAL = (
    "EngineCore encountered a fatal error.",
    "Traceback (most recent call last):",
    "RuntimeError: CUDA error: an illegal memory access was encountered",
)


def _told(meaning: str) -> float:
    return attrs.field(default=0.0, metadata={"meaning": meaning})


@attrs.frozen(kw_only=True)
class Faults:
    """What goes wrong; 0 where nothing does."""

    refuse_launch: float = _told("1: the launch fails for want of memory")
    slow_start_s: float = _told("seconds until the server answers")
    crash_after: float = _told("the engine dies when so many requests were answered")
    hang_after: float = _told("the engine stops stepping when so many requests were answered")
    reset_counters_after: float = _told("all counters begin again after so many answers")
    restart_engine_after: float = _told("the last data-parallel engine begins anew after so many")
    late_counters_s: float = _told("seconds by which counters, not gauges, lag behind")
    foreign_every: float = _told("a request of nobody's comes with every so many of ours")
    shuffled_labels: float = _told("1: /metrics orders labels and samples anew at each read")
    lost_usage_every: float = _told("no usage in every so many-th answer")
    malformed_every: float = _told("an event that is no JSON in every so many-th answer")
    split_events: float = _told("1: every event is written in two pieces")
    stream_error_every: float = _told("an error inside every so many-th stream, under HTTP 200")
    http_500_every: float = _told("HTTP 500 for every so many-th request")
    reset_every: float = _told("the connection of every so many-th answer is reset in its middle")
    stall_every: float = _told("every so many-th stream stops for ever after its first token")
    kv_tokens: float = _told("tokens of KV, in place of what the memory would hold")
    clock_drift: float = _told("share by which the server's clock runs fast")


NAMES = {field.name.replace("_", "-"): field for field in attrs.fields(Faults)}


def parse(texts: Iterable[str], method: str) -> Faults:
    """Read faults; those of another method than `method` are none.

    Raises:
        ValueError: A text is no fault. The message names it and what there is.
    """
    asked: dict[str, float] = {}
    for text in filter(None, (piece.strip() for whole in texts for piece in whole.split(","))):
        left, _, value = text.partition("=")
        arm, _, name = left.rpartition(":")
        if name not in NAMES:
            raise ValueError(f"no fault {name!r} in {text!r}; there are: {', '.join(NAMES)}")
        try:
            number = float(value)
        except ValueError:
            raise ValueError(f"fault {text!r} needs a number, such as {name}=3") from None
        if not 0 <= number < float("inf"):
            raise ValueError(f"fault {text!r} needs a number that is not negative")
        if arm in ("", method):
            asked[NAMES[name].name] = number
    return Faults(**asked)


def due(every: float, count: int) -> bool:
    """Tell whether the `count`-th request, from 1, is one of every so many."""
    return bool(every) and count % max(int(every), 1) == 0
