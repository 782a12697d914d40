"""The server's clock against the client's, by the server's own histogram."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest

from specbench.engines.known import ENGINES
from specbench.facts import CounterSnapshot, RequestRow, Verdict
from specbench.judge.server_clock import agreement
from specbench.observe.metrics import parse
from tests.conftest import row

NAMES = ENGINES["vllm"].counters()
FAMILY = "vllm:request_time_per_output_token_seconds"
ROWS = [row(0), row(1)]
"""Each of 11 tokens, the first at 100 ms and the last at 600 ms: 50 ms a token."""


def snapshot(*engines: tuple[float, int]) -> CounterSnapshot:
    return parse(
        "".join(
            f'{FAMILY}_sum{{engine="{engine}"}} {total}\n{FAMILY}_count{{engine="{engine}"}} {count}\n'
            for engine, (total, count) in enumerate(engines)
        )
    )


def ruled(
    total: float, count: int = 2, rows: Sequence[RequestRow] = ROWS, *, before: float = 7.0
) -> Verdict | None:
    return agreement(snapshot((before, 30)), snapshot((before + total, 30 + count)), NAMES, rows)


@pytest.mark.parametrize(
    ("total", "outcome"),
    [
        (0.100, "pass"),
        (0.109, "pass"),
        (0.111, "undecided"),
        (0.091, "pass"),
        (0.089, "undecided"),
        (1.0, "undecided"),
    ],
)
def test_ten_percent_of_our_own_mean_is_allowed(total: float, outcome: str) -> None:
    verdict = ruled(total)
    assert verdict is not None
    assert verdict.outcome == outcome
    assert verdict.gate == "server_clock"
    assert verdict.observed == (
        f"TPOT {total / 2 * 1000:.3f} ms by the server, 50.000 ms by the client"
    )
    assert bool(verdict.advice) == (outcome == "undecided")


def test_engines_are_summed() -> None:
    before, after = snapshot((1.0, 3), (0.0, 0)), snapshot((1.05, 4), (0.05, 1))
    verdict = agreement(before, after, NAMES, ROWS)
    assert verdict is not None
    assert verdict.outcome == "pass"


def test_a_request_of_one_token_is_an_observation_of_0_as_in_vllm() -> None:
    single = row(2, completion_tokens=1, last_payload_ns=100_000_000)
    verdict = ruled(0.1, 3, [*ROWS, single])
    assert verdict is not None
    assert verdict.outcome == "pass"


@pytest.mark.parametrize(
    ("count", "rows"),
    [
        (2, [row(0, status="timeout"), row(1, status="timeout")]),
        (2, [row(0), row(1, completion_tokens=None)]),
        (3, ROWS),
        (0, []),
        (1, [row(0, completion_tokens=1, last_payload_ns=100_000_000)]),
    ],
    ids=["no success", "no usage", "other requests", "no requests", "no decoding"],
)
def test_means_of_other_requests_are_not_compared(count: int, rows: list[RequestRow]) -> None:
    assert ruled(0.1, count, rows) is None


def test_without_the_series_nothing_is_ruled() -> None:
    nothing = CounterSnapshot(series={})
    assert agreement(nothing, nothing, NAMES, ROWS) is None
    unnamed = attrs.evolve(NAMES, tpot_sum=None)
    assert agreement(snapshot((0, 0)), snapshot((0.1, 2)), unnamed, ROWS) is None


@pytest.mark.parametrize(
    ("server_s", "client_ms", "share"),
    [
        # Sums of 104 requests of 128 tokens in the servers' own histogram, and the mean TPOT of the
        # same requests by the client: vLLM 0.23.0 on an H200, concurrency 1, 8 and 32 together.
        (0.5420170435577911 - 0.02115952405387658, 4.948275, 1.0121),
        (0.7851969293118904 - 0.22677698125676798, 5.329942, 1.0074),
        (0.7742460286278097 - 0.16334244053332117, 5.836812, 1.0064),
        (0.29112384147617815 - 0.011207617365935802, 2.642143, 1.0187),
    ],
    ids=["baseline", "draft-k3", "ngram-k3", "eagle-k3"],
)
def test_real_servers_agree_with_what_their_client_measured(
    server_s: float, client_ms: float, share: float
) -> None:
    last_ns = 100_000_000 + round(client_ms * 1e6 * 127)
    rows = [row(place, completion_tokens=128, last_payload_ns=last_ns) for place in range(104)]
    assert server_s / 104 / client_ms * 1e3 == pytest.approx(share, abs=1e-4)
    verdict = ruled(server_s, 104, rows)
    assert verdict is not None
    assert verdict.outcome == "pass"
