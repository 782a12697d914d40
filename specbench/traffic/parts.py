"""What one client process measured, and the exact merge of several into a window. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain

import attrs
import numpy as np

from specbench.client_facts import ClientFacts, ClockKind
from specbench.facts import Output, RequestRow, Window
from specbench.units import seconds


@attrs.frozen(kw_only=True)
class Part:
    """One client process's part of a window. Samples are whole, so that merging is exact."""

    rows: tuple[RequestRow, ...] = attrs.field(repr=False)
    outputs: tuple[Output, ...] = attrs.field(repr=False)
    clock: ClockKind
    started_unix_s: float
    event_loop: str
    cpu_share: float
    lag_ns: array[int]
    loop_lag_ns: array[int]
    dispatch_ns: array[int]
    unstamped_reads: int
    clock_error_ns: int
    clock_step_ns: int


def window(parts: Sequence[Part], concurrency: int | None) -> Window:
    """Give the window that client processes of one machine measured together.

    Instants need no conversion: CLOCK_MONOTONIC is one clock for all processes of a machine.
    """
    pairs = sorted(
        chain.from_iterable(zip(part.rows, part.outputs, strict=True) for part in parts),
        key=lambda pair: pair[0].index,
    )
    rows = tuple(row for row, _ in pairs)
    return Window(
        rows=rows,
        outputs=tuple(output for _, output in pairs),
        concurrency=concurrency,
        clock="kernel" if all(part.clock == "kernel" for part in parts) else "user",
        started_unix_s=min(part.started_unix_s for part in parts),
        client=_client(parts, rows),
    )


def most_in_flight(rows: Sequence[RequestRow]) -> int:
    """Give the most requests that were in flight at once."""
    changes = sorted(
        chain(((row.sent_ns, 1) for row in rows), ((row.ended_ns, -1) for row in rows))
    )
    return int(np.max(np.cumsum([change for _, change in changes]), initial=0))


def _client(parts: Sequence[Part], rows: Sequence[RequestRow]) -> ClientFacts:
    lag_p50_s, lag_p99_s, lag_max_s = _quantiles_s([p.lag_ns for p in parts], 0.5, 0.99, 1.0)
    dispatch_p50_s, dispatch_p95_s, dispatch_p99_s = _quantiles_s(
        [part.dispatch_ns for part in parts], 0.5, 0.95, 0.99
    )
    (loop_lag_p99_s,) = _quantiles_s([part.loop_lag_ns for part in parts], 0.99)
    events = sum(len(row.event_ns) for row in rows)
    merged = sum(row.merged_events for row in rows)
    first_ns = min((row.sent_ns for row in rows), default=0)
    return ClientFacts(
        event_loop=parts[0].event_loop,
        processes=len(parts),
        duration_s=seconds(max((row.ended_ns for row in rows), default=0) - first_ns),
        cpu_share=max(part.cpu_share for part in parts),
        events=events,
        merged_share=merged / events if events else 0.0,
        lag_p50_s=lag_p50_s,
        lag_p99_s=lag_p99_s,
        lag_max_s=lag_max_s,
        loop_lag_p99_s=loop_lag_p99_s or 0.0,
        dispatch_p50_s=dispatch_p50_s or 0.0,
        dispatch_p95_s=dispatch_p95_s or 0.0,
        dispatch_p99_s=dispatch_p99_s or 0.0,
        reached_in_flight=most_in_flight(rows),
        unstamped_reads=sum(part.unstamped_reads for part in parts),
        clock_error_s=seconds(max(part.clock_error_ns for part in parts)),
        clock_step_s=seconds(max((part.clock_step_ns for part in parts), key=abs)),
    )


def _quantiles_s(samples_ns: Sequence[array[int]], *shares: float) -> list[float | None]:
    """Give quantiles of all samples together, in seconds; None of none.

    A long window has millions: they are put together once, and not copied again.
    """
    values_ns = np.concatenate([np.asarray(one, dtype=np.int64) for one in samples_ns])
    if not values_ns.size:
        return [None for _ in shares]
    found_ns = np.quantile(values_ns, shares, overwrite_input=True)
    return [seconds(float(one)) for one in found_ns]
