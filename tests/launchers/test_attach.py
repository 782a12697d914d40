"""Servers that run already, measured through the whole walk."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from specbench.artifacts import RunFolder
from specbench.errors import DeploymentError
from specbench.experiment.model import AttachedServer
from specbench.launchers.attach import attached
from specbench.launchers.local import free_port
from specbench.store.store import opened, rows
from specbench.whole_files import read_json
from tests.conftest import SMALL, FinishedRun, run_small
from tests.launchers.test_local import until
from tests.loopback_proxy import proxying

HEAD = SMALL.replace(
    '  - {name: "ngram-k{num_speculative_tokens}", method: ngram, num_speculative_tokens: [3]}\n',
    "",
)
SPECULATION = '{"method": "eagle3", "model": "toy-head", "num_speculative_tokens": 3}'


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, tuple[str, Path]]]:
    """Two running servers, by arm: where they answer, and their logs."""
    folder = tmp_path_factory.mktemp("servers")
    running, found = [], {}
    for arm, more in (("baseline", []), ("eagle-k3", ["--speculative-config", SPECULATION])):
        port, log = free_port(), folder / f"{arm}.log"
        command = [
            sys.executable,
            "-m",
            "specbench.engines.simulated.server",
            "--model",
            "toy",
            "--port",
            str(port),
            "--served-model-name",
            "its-own-name",
            "--speed",
            "20",
            "--seed",
            "3",
            *more,
        ]
        with log.open("wb") as file:
            running.append(subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT))
        found[arm] = (f"http://127.0.0.1:{port}", log)
    assert until(lambda: all(answers(url) for url, _ in found.values()))
    yield found
    for process in running:
        process.terminate()
        process.wait()


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", trust_env=False).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def attaching(servers: dict[str, tuple[str, Path]], *, logs: bool = True, more: str = "") -> str:
    lines = [
        f'    {arm}: {{base_url: "{url}"{f", log: {log}" if logs else ""}{more}}}'
        for arm, (url, log) in servers.items()
    ]
    return HEAD + "\n".join(["launcher:", "  kind: attach", "  servers:", *lines, ""])


def test_attached_servers_are_audited_measured_and_left_running(
    servers: dict[str, tuple[str, Path]], tmp_path: Path
) -> None:
    done = run_small(tmp_path, attaching(servers).replace("blocks: 2", "blocks: 1"))
    assert done.result.exit_code == 0, done.result.output
    assert all(answers(url) for url, _ in servers.values())
    with opened(done.results) as connection:
        facts = rows(
            connection,
            "select distinct arm, value from facts join deployments using (deployment_id) where fact = 'method' order by 1",
        )
        accepted = rows(
            connection,
            "select distinct arm from deployments join cells using (deployment_id) where acceptance_rate > 0",
        )
    assert facts == [{"arm": "baseline", "value": "none"}, {"arm": "eagle-k3", "value": "eagle3"}]
    assert accepted == [{"arm": "eagle-k3"}]


def test_two_attaches_to_one_process_are_one_deployment(
    servers: dict[str, tuple[str, Path]], tmp_path: Path
) -> None:
    done = run_small(tmp_path, attaching(servers))
    with opened(done.results) as connection:
        found = rows(
            connection, "select blocks, missing from effects where metric = 'output_throughput'"
        )
        same = rows(
            connection,
            "select block, same_process_as from deployments where same_process_as is not null",
        )
    assert [row["blocks"] for row in found] == [1, 1]
    assert all("the same server process as in b01-" in row["missing"][0] for row in found)
    assert {row["block"] for row in same} == {2}


def test_a_server_that_is_not_what_the_arm_asks_for_is_rejected(
    servers: dict[str, tuple[str, Path]], tmp_path: Path
) -> None:
    turned = {"baseline": servers["eagle-k3"], "eagle-k3": servers["baseline"]}
    done = run_small(tmp_path, attaching(turned))
    assert done.result.exit_code == 4
    assert "not in effect: in_effect.method is eagle3, asked none" in done.result.output


class Gateway(threading.Thread):
    """Passes everything on to a server but /metrics and /server_info, which it hides."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._target = int(url.rpartition(":")[2])
        self._ready = threading.Event()
        self.keys: set[str] = set()

    def open(self) -> str:
        self.start()
        assert self._ready.wait(10)
        return f"http://127.0.0.1:{self._port}"

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self.join(10)

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        self._loop, self._done = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._pass, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        self._ready.set()
        async with server:
            await self._done.wait()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.keys |= {
            line.partition(": ")[2]
            for line in head.decode().splitlines()
            if line.lower().startswith("authorization")
        }
        if b" /metrics" in head or b" /server_info" in head:
            writer.write(
                b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
            await writer.drain()
            writer.close()
            return
        inner, outer = await asyncio.open_connection("127.0.0.1", self._target)
        # One request a connection, so that each head is seen.
        outer.write(head[:-2] + b"connection: close\r\n\r\n")
        pumps = [asyncio.create_task(pump(reader, outer)), asyncio.create_task(pump(inner, writer))]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for side in (outer, writer):
            side.close()
        await asyncio.wait(pumps)


async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while body := await source.read(65536):
            sink.write(body)
            await sink.drain()
    except OSError:
        return


def test_behind_a_gateway_without_metrics_acceptance_is_unknown_and_nothing_is_guessed(
    servers: dict[str, tuple[str, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATEWAY_KEY", "sk-through-the-gateway")
    gateways = {arm: Gateway(url) for arm, (url, _) in servers.items()}
    hidden = {arm: (gateway.open(), Path("unused")) for arm, gateway in gateways.items()}
    document = attaching(hidden, logs=False, more=", api_key_env: GATEWAY_KEY").replace(
        "blocks: 2", "blocks: 1"
    )
    done = run_small(tmp_path, document)
    assert done.result.exit_code == 0, done.result.output
    for gateway in gateways.values():
        gateway.close()
        assert gateway.keys == {"Bearer sk-through-the-gateway"}
    with opened(done.results) as connection:
        cells = rows(connection, "select acceptance_rate, output_throughput, rejected from cells")
        gates = rows(
            connection,
            "select distinct gate, outcome from verdicts where gate like 'in_effect%' or gate in ('counters', 'foreign_traffic') order by 1",
        )
        effects = rows(
            connection, "select estimate from effects where metric = 'output_throughput'"
        )
    assert len(cells) == 4
    assert all(
        cell["acceptance_rate"] is None and cell["output_throughput"] > 0 and not cell["rejected"]
        for cell in cells
    )
    assert {gate["outcome"] for gate in gates} == {"undecided"}
    assert len(effects) == 2
    assert all(effect["estimate"] for effect in effects)
    kept = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert [path for path in kept if b"sk-through-the-gateway" in path.read_bytes()] == []


def test_a_server_that_is_not_there_fails_in_words_and_the_others_go_on(
    servers: dict[str, tuple[str, Path]], tmp_path: Path
) -> None:
    gone = {**servers, "eagle-k3": (f"http://127.0.0.1:{free_port()}", Path("unused"))}
    done = run_small(tmp_path, attaching(gone, logs=False).replace("blocks: 2", "blocks: 1"))
    assert done.result.exit_code == 4
    assert "/v1/models names no model" in done.result.output
    attempts = {
        a.deployment.split("-", 2)[2]: a.closing()["status"] for a in RunFolder(done.run).attempts()
    }
    assert attempts == {"baseline": "complete", "eagle-k3": "failed"}


def test_servers_and_arms_must_match(tmp_path: Path) -> None:
    wrong = (
        HEAD
        + 'launcher: {kind: attach, servers: {baseline: {base_url: "http://127.0.0.1:1"}, other: {base_url: "http://127.0.0.1:1"}}}\n'
    )
    done = run_small(tmp_path, wrong)
    assert done.result.exit_code == 1
    said = str(done.result.exception)
    assert "no server for arm 'eagle-k3'" in said
    assert "a server for 'other', which is no arm" in said
    assert "2 arms share http://127.0.0.1:1" in said


@pytest.mark.parametrize(("bypassed", "said"), [("", True), ("127.0.0.1", False)])
def test_a_server_behind_a_proxy_only_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bypassed: str, said: bool
) -> None:
    for name in ("http_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", bypassed)

    async def attach() -> None:
        asked = AttachedServer(base_url="http://127.0.0.1:1")
        async with attached(asked, tmp_path / "log", "/metrics"):
            pass

    with pytest.raises(DeploymentError, match="names no model") as refused:
        asyncio.run(attach())
    assert ("names a proxy for http, which is not used" in str(refused.value)) is said
    assert ("(http_proxy) as the server's proxy_env" in str(refused.value)) is said


def test_a_server_behind_a_proxy_is_measured_and_its_credentials_are_kept_nowhere(
    servers: dict[str, tuple[str, Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxying() as proxy:
        monkeypatch.setenv("REACH", f"http://Aladdin:open%20sesame@127.0.0.1:{proxy.port}")
        document = attaching(servers).replace(".log}", ".log, proxy_env: REACH}")
        assert document.count("proxy_env") == 2
        for long, short in (
            ("blocks: 2", "blocks: 1"),
            ("[1, 4], requests: {1: 6, 4: 12}", "[2], requests: {2: 6}"),
            ("captures: 2", "captures: 1"),
        ):
            document = document.replace(long, short)
        done = run_small(tmp_path, document)
    assert done.result.exit_code == 0, done.result.output
    direct = {f"{url}/{path}" for url, _ in servers.values() for path in ("metrics", "server_info")}
    asked = {line.split()[1].partition("?")[0] for line in proxy.lines()}
    assert direct <= asked
    assert all("Proxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==" in h for h in proxy.heads)
    assert b"Proxy-Authorization" not in proxy.passed
    launches = [read_json(path) for path in done.run.glob("*/launch.json")]
    assert [launch["through_proxy"] for launch in launches] == [True, True]
    with opened(done.results) as connection:
        cells = rows(connection, "select clock, output_throughput, acceptance_rate from cells")
    assert {cell["clock"] for cell in cells} == {"kernel"}
    assert all(cell["output_throughput"] > 0 for cell in cells)
    assert kept_with(tmp_path, done, SECRETS) == []


def test_what_a_proxy_repeats_of_its_credentials_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusal = b"HTTP/1.1 407 No\r\nconnection: close\r\n\r\nnot TOLD, and not open sesame"
    with proxying(refusal) as proxy:
        monkeypatch.setenv("REACH", f"http://Aladdin:open%20sesame@127.0.0.1:{proxy.port}")
        hidden = {arm: ("http://server.test:80", Path("x")) for arm in ("baseline", "eagle-k3")}
        document = attaching(hidden, logs=False, more=", model: m, proxy_env: REACH")
        document = document.replace("server.test:80", "server.test:81", 1)
        document = document.replace("kind: attach", "kind: attach\n  ready_timeout_s: 0.1")
        done = run_small(tmp_path, document.replace("blocks: 2", "blocks: 1"))
    assert done.result.exit_code == 4, done.result.output
    reasons = [attempt.closing()["reason"] for attempt in RunFolder(done.run).attempts()]
    said = "was not ready after 0 s; its last answer: HTTP 407: not Basic ***, and not ***"
    assert reasons == [f"the server {said}"] * 2
    assert kept_with(tmp_path, done, SECRETS) == []


SECRETS = ("open sesame", "open%20sesame", "QWxhZGRpbjpvcGVuIHNlc2FtZQ==")


def kept_with(folder: Path, done: FinishedRun, secrets: Sequence[str]) -> list[str]:
    """Give where a secret stands in what a run kept or said."""
    kept = {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    kept["output"] = done.result.output.encode()
    return [name for name, said in kept.items() for s in secrets if s.encode() in said]
