"""A simulated server as a block of a test: started, asked and ended without an event loop."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import attrs
from anyio.from_thread import BlockingPortal, start_blocking_portal

from specbench.engines.known import ENGINES
from specbench.errors import DeploymentError
from specbench.experiment.load import Timeouts
from specbench.experiment.model import Flag, Gates, Sampling, Target
from specbench.experiment.prompt import Message, Prompt
from specbench.facts import Audit, Cause, CounterSnapshot, RequestRow, Window
from specbench.judge.window import Judged, judge_window
from specbench.launchers.local import serving
from specbench.launchers.server import Server
from specbench.methods import Counting, Expected, Launch
from specbench.observe import logs, metrics
from specbench.traffic.drive import drive
from specbench.traffic.loops import LoadPoint
from specbench.traffic.requests import Wording, measured

ENGINE = ENGINES["simulated"]
MODEL = "/models/target"
SPEED = 20.0
"""Times faster than the machine that the server stands for."""
READY_S = 60.0
POLL_S = 0.02
GRACE_S = 2.0
PROMPTS = (
    "Tell me of the sea and the wind, and of the ships that are out there.",
    "def area(width, height):\n    return width * height\n\ndef volume(width, height, depth):\n",
    "Summarise this: the tide comes twice a day, and twice a day the tide goes out again.",
    "Write a class Box with width and height. class Box:\n    def __init__(self, width, height):\n",
)
"""Of every genre that the server knows: chat, code and summary."""
AT_EASE = Gates(
    achieved_concurrency=0.0,
    simulator_late_steps=1.0,
    client_lag_p99_ms=1e6,
    client_cpu_share=1e3,
)
"""Gates that no busy machine breaks: a test asks for what is right, not for what is fast."""


@attrs.frozen(kw_only=True)
class Driven:
    """What came back from a window of requests, and what is ruled on it."""

    window: Window
    judged: Judged

    @property
    def rows(self) -> tuple[RequestRow, ...]:
        """Give the requests in their order."""
        return self.window.rows

    def outcomes(self) -> dict[str, str]:
        """Give the outcome of each verdict by its gate; a failed one covers another of its gate."""
        ruled = sorted(self.judged.verdicts, key=lambda verdict: verdict.outcome == "fail")
        return {verdict.gate: verdict.outcome for verdict in ruled}


class SimulatedServer:
    """A simulated server in service. Made by `simulated_server`."""

    def __init__(self, server: Server, log: Path, portal: BlockingPortal) -> None:
        self.base_url = server.base_url
        self.log = log
        """Its launch log, for as long as the block lasts."""
        self._server = server
        self._portal = portal
        self._windows = count(1)

    @property
    def pid(self) -> int:
        """Give the number of its process."""
        assert self._server.pid is not None
        return self._server.pid

    @property
    def exit_code(self) -> int | None:
        """Give the code it ended with, or None while it serves."""
        return self._server.exit_code

    def until_ended(self, timeout_s: float = 10.0) -> int:
        """Wait for a server that ends by itself, and give its exit code.

        Raises:
            TimeoutError: It still serves.
        """

        async def ended() -> None:
            with anyio.fail_after(timeout_s):
                await self._server.ended.wait()

        self._portal.call(ended)
        assert self._server.exit_code is not None
        return self._server.exit_code

    def cause(self) -> Cause:
        """Give why it went down, as the engine reads it from the log."""
        return ENGINE.cause(self.log.read_text())

    def metrics(self) -> CounterSnapshot:
        """Read /metrics once nothing runs and the counters stand still.

        Raises:
            DeploymentError: The server gives no counters.
        """
        return metrics.parse(self._settled()[0])

    def audit(self) -> Audit:
        """Give what it says it runs, in its log and its resolved configuration."""
        config = self._portal.call(metrics.fetch_json, self.base_url + ENGINE.config_path, {})
        configured = ENGINE.config_facts(config) if isinstance(config, Mapping) else ()
        return logs.audit(self.log.read_text(), ENGINE.log_patterns(), configured)

    def drive(
        self,
        prompts: Sequence[str] = PROMPTS,
        *,
        requests: int | None = None,
        max_tokens: int = 16,
        concurrency: int = 2,
        timeout_s: float = 30.0,
        sampling: Sampling | None = None,
        expected: Expected | None = None,
        counting: Counting | None = None,
        gates: Gates = AT_EASE,
    ) -> Driven:
        """Send requests in passes over the prompts, and judge the window as a run would.

        Without `requests` it is one pass. Without `expected` and `counting` the window is judged as
        one of a server without speculation. No cell is warmed: what is timed here is no result.
        """
        asked = measured(
            _prompts(prompts, max_tokens),
            requests or len(prompts),
            self._wording(sampling or Sampling(name="greedy")),
        )
        before, quiet_before = self._settled()
        point = LoadPoint(
            base_url=self.base_url,
            timeouts=Timeouts(request_s=timeout_s),
            concurrency=concurrency,
        )
        window = self._portal.call(drive, asked, point)
        try:
            after, quiet_after = self._settled()
        except DeploymentError:
            # It died in the window; what the client saw of that is judged all the same.
            after, quiet_after = "", False
        judged = judge_window(
            window.rows,
            concurrency=concurrency,
            client=window.client,
            before=metrics.parse(before),
            after=metrics.parse(after),
            settled=quiet_before and quiet_after,
            names=ENGINE.counters(),
            expected=expected or Expected(methods=()),
            counting=counting,
            required=gates,
        )
        return Driven(window=window, judged=judged)

    def _settled(self) -> tuple[str, bool]:
        return self._portal.call(metrics.settled, self._server.metrics_url, ENGINE.counters())

    def _wording(self, sampling: Sampling) -> Wording:
        return Wording(
            host=urlsplit(self.base_url).netloc,
            path=ENGINE.chat_path,
            model=self._server.model,
            sampling=sampling,
            salt=f"window-{next(self._windows)}",
        )


@contextmanager
def simulated_server(
    *,
    speculation: Mapping[str, Any] | None = None,
    flags: Mapping[str, Flag] | None = None,
    version: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[SimulatedServer]:
    """Serve on a free port of loopback until the block ends, 20 times as fast as a real machine.

    `speculation` is the engine's speculative configuration, `flags` are those of `target.flags`
    (`speed` and `fault` among them) and `max-model-len`, `version` is the vLLM it answers as.

    Raises:
        DeploymentError: It did not come up. `kind` and message are the cause that its log states.
    """
    target = Target(engine="simulated", model=MODEL, version=version, flags=flags or {})
    launch = Launch(speculation=speculation or {}, environment=environment or {})
    with served(target, launch) as server:
        yield server


@contextmanager
def served(target: Target, launch: Launch) -> Iterator[SimulatedServer]:
    """Serve a target of the simulated engine, launched as a run would launch it.

    Raises:
        DeploymentError: It did not come up. `kind` and message are the cause that its log states.
    """
    target = attrs.evolve(target, flags={"speed": SPEED, **target.flags})
    command = ENGINE.command(target, launch, sys.executable)
    with (
        tempfile.TemporaryDirectory(prefix="specbench-") as folder,
        start_blocking_portal() as portal,
    ):
        log = Path(folder) / "launch.log"
        launched = serving(command, log, model=ENGINE.served_name, grace_s=GRACE_S)
        with portal.wrap_async_context_manager(launched) as server:
            if not portal.call(_answers, server):
                raise _did_not_come_up(server, log)
            yield SimulatedServer(server, log, portal)


async def _answers(server: Server) -> bool:
    """Wait until it listens. A completion would count among the requests that faults count."""
    address = urlsplit(server.base_url)
    assert address.hostname is not None
    assert address.port is not None
    with anyio.move_on_after(READY_S):
        while not server.ended.is_set():
            try:
                stream = await anyio.connect_tcp(address.hostname, address.port)
            except OSError:
                await anyio.sleep(POLL_S)
            else:
                await stream.aclose()
                return True
    return False


def _did_not_come_up(server: Server, log: Path) -> DeploymentError:
    if server.exit_code is None:
        told = f"the simulated server did not answer in {READY_S:g} s"
        return DeploymentError(told, kind="timeout")
    cause = ENGINE.cause(log.read_text())
    told = f"the simulated server ended with code {server.exit_code}: {cause.line}"
    return DeploymentError(told, kind=cause.kind, hint=cause.remedy)


def _prompts(texts: Sequence[str], max_tokens: int) -> tuple[Prompt, ...]:
    return tuple(
        Prompt(
            id=f"p{place}",
            stratum="test",
            messages=(Message(role="user", content=text),),
            max_tokens=max_tokens,
            source="test",
            licence="Apache-2.0",
        )
        for place, text in enumerate(texts)
    )
