from __future__ import annotations

from specbench.engines.simulated.http_server import Reply
from specbench.engines.simulated.player import write_out


class _Slow(Reply):
    """A reply whose reader takes the processor for 5 ms at each write."""

    def __init__(self, clock: list[float], sent: list[bytes]) -> None:
        self._clock, self._sent = clock, sent

    def send(self, data: bytes) -> None:
        self._sent.append(data)
        self._clock[0] += 0.005


def test_a_step_went_out_when_its_last_write_began() -> None:
    clock, sent = [7.0], list[bytes]()
    ready: list[tuple[Reply, bytes]] = [(_Slow(clock, sent), piece) for piece in (b"a", b"b", b"c")]
    # The readers of the first two held up the third; nobody waited for the reader of the last.
    assert round(write_out(ready, lambda: clock[0]), 6) == 7.010
    assert sent == [b"a", b"b", b"c"]
    assert write_out(ready[:1], lambda: clock[0]) == clock[0] - 0.005
    assert write_out([], lambda: clock[0]) == clock[0]
