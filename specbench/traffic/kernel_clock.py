"""Arrival stamps of the kernel, on the client's own clock.

`SO_TIMESTAMPNS` makes Linux hand out with each read the CLOCK_REALTIME at which its last segment
arrived (`net/ipv4/tcp.c`, `tcp_recv_timestamp`). Everything else here is CLOCK_MONOTONIC, which is
what `time.perf_counter_ns` reads. Both clocks run at one rate, slewing included: their difference
changes only when somebody sets the wall clock, at a leap second, or over a suspend. So one measured
difference converts every stamp, and measuring it again tells whether the wall clock was stepped.
"""

from __future__ import annotations

import socket
import sys
import time
from contextlib import suppress

SO_TIMESTAMPNS = 35
"""`include/uapi/asm-generic/socket.h`; Python's socket module has no name for it."""
ANCILLARY_BYTES = socket.CMSG_SPACE(16) if hasattr(socket, "CMSG_SPACE") else 0
SAMPLES = 40
TOLERANCE_NS = 20_000
"""Two measured differences that lie further apart than this are a step. Far above the error of
either, far below anything that a person or daemon sets a clock by."""
_PROBES = 40


class ClockOffset:
    """The difference CLOCK_REALTIME - CLOCK_MONOTONIC, and whether it held."""

    def __init__(self) -> None:
        self.offset_ns, self.error_ns = measured_offset()
        self.step_ns = 0
        """The largest step of the wall clock since then; 0 when there was none."""

    def renew(self) -> None:
        """Measure the difference again and note a step."""
        offset_ns, error_ns = measured_offset()
        step_ns = offset_ns - self.offset_ns
        if abs(step_ns) > TOLERANCE_NS + error_ns + self.error_ns:
            self.step_ns = max(self.step_ns, step_ns, key=abs)
            self.offset_ns, self.error_ns = offset_ns, error_ns


def measured_offset() -> tuple[int, int]:
    """Give CLOCK_REALTIME - CLOCK_MONOTONIC and the bound of its error, in nanoseconds.

    The wall clock is read between two reads of the other: the difference to their middle is wrong
    by at most half their distance. The closest pair of several is taken.
    """
    best = (0, 1 << 62)
    for _ in range(SAMPLES):
        before = time.perf_counter_ns()
        wall = time.time_ns()
        after = time.perf_counter_ns()
        half = (after - before + 1) // 2
        if half < best[1]:
            best = (wall - before - half, half)
    return best


def _keep_stamping() -> None:
    """Hold a socket that asks for stamps for as long as this process lives.

    The kernel stops stamping when the last such socket closes, and the first bytes of a next one
    would go unstamped.
    """
    keeper = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    keeper.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    keeper.detach()


def kernel_stamps_work() -> bool:
    """Tell whether this platform stamps the reads of a TCP socket of loopback.

    Tried, not assumed: sandboxes take the option and give no stamp. The kernel switches stamping on
    a moment after the first socket asks for it, hence several tries.
    """
    if sys.platform != "linux" or sys.maxsize < 1 << 32:
        return False
    with (
        suppress(OSError),
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname(), timeout=1) as client,
    ):
        client.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        with server.accept()[0] as peer:
            for _ in range(_PROBES):
                peer.send(b"x")
                if client.recvmsg(1, ANCILLARY_BYTES)[1]:
                    _keep_stamping()
                    return True
                time.sleep(0.001)
    return False
