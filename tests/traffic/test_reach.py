"""Servers behind an HTTP proxy, spoken to for real on loopback."""

from __future__ import annotations

import asyncio
import ssl

import anyio
import pytest

from specbench.engines.known import ENGINES
from specbench.errors import DeploymentError
from specbench.experiment.load import Timeouts
from specbench.experiment.model import Sampling
from specbench.experiment.prompt import Message, Prompt
from specbench.facts import CounterNames, RequestRow, Window
from specbench.launchers.local import free_port
from specbench.launchers.server import Server
from specbench.observe import metrics
from specbench.observe.sampler import sampling
from specbench.proxy import Proxy
from specbench.traffic.drive import drive
from specbench.traffic.loops import LoadPoint
from specbench.traffic.requests import Wording, measured
from tests.loopback_proxy import NAMED, LoopbackProxy, proxying
from tests.traffic.faulty_server import (
    END,
    HEAD,
    PATIENT,
    USAGE,
    WHOLE,
    Serve,
    answers,
    chunk,
    event,
    serving,
    stalls,
)

# RFC 7617, section 2.
CREDENTIALS, TOLD = "Aladdin:open%20sesame@", "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
NAMES: CounterNames = ENGINES["vllm"].counters()


async def driven(
    base_url: str, proxy: Proxy, *, timeouts: Timeouts = PATIENT, times: int = 1, processes: int = 1
) -> Window:
    """Send requests as a cell sends them."""
    server = Server(
        base_url=base_url,
        metrics_url=None,
        model="m",
        headers={"Authorization": "Bearer its-key"},
        proxy=proxy,
    )
    wording = Wording(
        host=base_url.split("/")[2],
        path=server.request_target("/v1/chat/completions"),
        model="m",
        headers=server.request_headers(),
        sampling=Sampling(name="greedy"),
        salt="r/d/c",
    )
    prompt = Prompt(
        id="p",
        stratum="s",
        messages=(Message(role="user", content="hello"),),
        max_tokens=4,
        source="t",
        licence="x",
    )
    point = LoadPoint(
        base_url=base_url,
        proxy=server.proxy,
        timeouts=timeouts,
        concurrency=processes,
        processes=processes,
    )
    return await drive(measured([prompt], times, wording), point)


def window_of(
    proxy: LoopbackProxy, serve: Serve, *, tls: ssl.SSLContext | None = None, uvloop: bool = False
) -> Window:
    """Drive two requests to a server that only the proxy can name."""

    async def run() -> Window:
        async with serving(serve, tls=tls) as port:
            url = f"{'https' if tls else 'http'}://{NAMED}:{port}/gate"
            asked = Proxy.of(f"http://{CREDENTIALS}localhost:{proxy.port}")
            return await driven(url, asked, times=2)

    return anyio.run(run, backend_options={"use_uvloop": uvloop})


def refused(proxy: Proxy, base_url: str, timeouts: Timeouts = PATIENT) -> RequestRow:
    async def run() -> Window:
        return await driven(base_url, proxy, timeouts=timeouts)

    (row,) = anyio.run(run).rows
    return row


def test_plain_requests_name_the_whole_url_and_keep_their_kernel_stamps() -> None:
    with proxying() as proxy:
        window = window_of(proxy, answers(WHOLE))
    assert [row.status for row in window.rows] == ["ok", "ok"]
    assert [row.completion_tokens for row in window.rows] == [5, 5]
    assert window.client is not None
    assert (window.clock, window.client.unstamped_reads) == ("kernel", 0)
    assert all(row.sent_ns < row.event_ns[0] <= row.ended_ns for row in window.rows)
    # One connection carried both.
    first, second = proxy.heads
    line, host, *fields = first.split("\r\n")
    place = host.removeprefix("Host: ")
    assert place.startswith(f"{NAMED}:")
    assert line == f"POST http://{place}/gate/v1/chat/completions HTTP/1.1"
    assert f"Proxy-Authorization: {TOLD}" in fields
    assert second.startswith(f"{line}\r\n{host}\r\n")
    assert b"its-key" in proxy.passed


def test_a_proxy_that_buffers_shows_as_merged_events() -> None:
    async def apart(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            writer.write(HEAD + chunk(event("a")))
            await writer.drain()
            await asyncio.sleep(0.05)
            writer.write(chunk(event("b", finish='"stop"')) + chunk(USAGE) + END)

    with proxying() as passing, proxying(buffers=True) as buffering:
        plain, held = window_of(passing, apart), window_of(buffering, apart)
    assert [row.merged_events for row in plain.rows] == [0, 0]
    assert [row.merged_events for row in held.rows] == [1, 1]
    assert {row.status for row in (*plain.rows, *held.rows)} == {"ok"}


def test_client_processes_go_through_it_too() -> None:
    async def run() -> Window:
        async with serving(answers(WHOLE)) as port:
            asked = Proxy.of(f"http://127.0.0.1:{proxy.port}")
            return await driven(f"http://{NAMED}:{port}", asked, times=2, processes=2)

    with proxying() as proxy:
        assert [row.status for row in anyio.run(run).rows] == ["ok", "ok"]
    assert len(proxy.heads) == 2
    assert "Proxy-Authorization" not in "".join(proxy.heads)


@pytest.mark.parametrize("uvloop", [False, True])
def test_tls_goes_through_a_tunnel_with_the_name_of_the_server(
    server_side: ssl.SSLContext, uvloop: bool
) -> None:
    if uvloop:
        pytest.importorskip("uvloop")
    told = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while said := await reader.read(65536):
            told.extend(said)
            writer.write(WHOLE)

    with proxying() as proxy:
        window = window_of(proxy, serve, tls=server_side, uvloop=uvloop)
    assert [row.status for row in window.rows] == ["ok", "ok"]
    assert window.clock == "user"
    (head,) = proxy.heads
    line, host, *fields = head.split("\r\n")
    place = host.removeprefix("Host: ")
    assert place.startswith(f"{NAMED}:")
    assert line == f"CONNECT {place} HTTP/1.1"
    assert fields == [f"Proxy-Authorization: {TOLD}", "", ""]
    # What passes is sealed, and is the server's alone.
    assert proxy.passed
    assert b"its-key" not in proxy.passed
    assert told.startswith(b"POST /gate/v1/chat/completions HTTP/1.1\r\n")
    assert told.count(b"its-key") == 2
    assert b"Proxy-Authorization" not in told


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (
            b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\nTOLD",
            "the proxy refused a tunnel to the server: HTTP 407",
        ),
        (b"HTTP/1.0 502 Bad Gateway\r\n\r\n", "the proxy refused a tunnel to the server: HTTP 502"),
        (b"SSH-2.0-x\r\n\r\n", "the proxy refused a tunnel to the server: no HTTP"),
        (b"HTTP/1.1 200", "the proxy gave no whole answer to CONNECT"),
    ],
)
def test_a_refused_tunnel_is_a_connection_that_failed(answer: bytes, said: str) -> None:
    with proxying(answer) as proxy:
        asked = Proxy.of(f"http://{CREDENTIALS}127.0.0.1:{proxy.port}")
        row = refused(asked, "https://[::1]:8000")
    assert (row.status, row.error) == ("connection_lost", f"cannot connect: {said}")
    assert proxy.lines() == {"CONNECT [::1]:8000 HTTP/1.1"}


def test_a_refused_plain_request_tells_the_status_of_the_proxy() -> None:
    with proxying(b"HTTP/1.1 407 No\r\ncontent-length: 3\r\n\r\nwho") as proxy:
        row = refused(Proxy.of(f"http://127.0.0.1:{proxy.port}"), f"http://{NAMED}:80")
    assert (row.status, row.http_status, row.error) == ("http_error", 407, "HTTP 407: who")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_not_there_is_not_named(scheme: str) -> None:
    row = refused(Proxy.of(f"http://127.0.0.1:{free_port()}"), f"{scheme}://{NAMED}")
    said = "cannot connect: the proxy takes no connection: ConnectionRefusedError"
    assert (row.status, row.error) == ("connection_lost", said)


def test_a_proxy_that_keeps_silent_is_waited_for_as_long_as_for_a_server() -> None:
    async def run() -> RequestRow:
        async with serving(stalls()) as port:
            asked = Proxy.of(f"http://127.0.0.1:{port}")
            limits = Timeouts(connect_s=0.1)
            (row,) = (await driven(f"https://{NAMED}", asked, timeouts=limits)).rows
            return row

    row = anyio.run(run)
    assert (row.status, row.error) == ("timeout", "cannot connect: no connection after 0.1 s")


def test_counters_are_asked_for_through_a_tunnel_that_only_the_proxy_authorizes() -> None:
    with proxying(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n") as proxy:
        asked = Proxy.of(f"http://{CREDENTIALS}127.0.0.1:{proxy.port}")
        with pytest.raises(DeploymentError, match="gives no counters: 407"):
            anyio.run(metrics.process_start, f"https://{NAMED}:8/metrics", NAMES, asked)
        with sampling(f"https://{NAMED}:8/metrics", NAMES, 60, None, asked) as sampler:
            pass
    assert sampler.cost().failed == 1
    assert proxy.lines() == {f"CONNECT {NAMED}:8 HTTP/1.1", f"CONNECT {NAMED}:8 HTTP/1.0"}
    assert all(f"Proxy-Authorization: {TOLD}\r\n" in head for head in proxy.heads)


@pytest.mark.parametrize("through", [False, True])
@pytest.mark.parametrize("tls", [False, True])
def test_counters_are_sampled_directly_and_through_a_proxy(
    server_side: ssl.SSLContext, tls: bool, through: bool
) -> None:
    page = b"vllm:num_requests_running 3\n"
    told = answers(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(page) + page)

    async def run(proxy: LoopbackProxy) -> list[float]:
        asked = Proxy.of(f"http://127.0.0.1:{proxy.port}") if through else None
        async with serving(told, tls=server_side if tls else None) as port:
            place = f"{NAMED if through else '127.0.0.1'}:{port}"
            url = f"{'https' if tls else 'http'}://{place}/metrics"
            with sampling(url, NAMES, 60, None, asked) as sampler, anyio.fail_after(10):
                while not sampler.cost().samples + sampler.cost().failed:  # noqa: ASYNC110 - a thread's
                    await anyio.sleep(0.01)
        return [item.value for item in sampler.samples() if item.of == "server"]

    with proxying() as proxy:
        assert anyio.run(run, proxy) == [3]
    assert len(proxy.heads) == through
