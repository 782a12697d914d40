"""Servers as real processes, and their guard."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from specbench.errors import DeploymentError
from specbench.launchers.local import environment, free_port, is_free, serving
from specbench.launchers.readiness import until_ready
from specbench.methods import Command

FAMILY = """
import http.server, os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
subprocess.Popen([sys.executable, "-c", "import os, time; os.setsid(); time.sleep(600)"])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"{}")
print("family of", os.getpid(), flush=True)
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def family() -> Command:
    """A server with a child in its group and one that left it."""
    return Command(argv=(sys.executable, "-c", FAMILY, "{port}"), environment={"MARK": "{scratch}"})


def alive(marked: str) -> list[int]:
    """Give the processes whose environment holds a text: nothing else finds a re-parented child."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if marked.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def until(claim: Callable[[], bool], *, within_s: float = 15.0) -> bool:
    end = time.monotonic() + within_s
    while not claim():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def test_a_server_ends_with_its_whole_family_and_its_port_is_free(tmp_path: Path) -> None:
    async def run() -> tuple[str, int, int | None]:
        async with serving(family(), tmp_path / "log") as server:
            await until_ready(server, path="/", timeout_s=30)
            scratch = server.command.environment["MARK"]
            assert len(alive(scratch)) == 3
            assert not is_free(int(server.base_url.rpartition(":")[2]))
        return scratch, int(server.base_url.rpartition(":")[2]), server.exit_code

    scratch, port, code = anyio.run(run)
    assert alive(scratch) == []
    assert is_free(port)
    assert code == -signal.SIGTERM
    assert not Path(scratch).exists()


def test_a_server_does_not_outlive_a_killed_specbench(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import anyio
            from pathlib import Path
            from specbench.launchers.local import serving
            from specbench.launchers.readiness import until_ready
            from specbench.methods import Command
            async def run():
                command = Command(argv={family().argv!r}, environment={{"MARK": "{{scratch}}"}})
                async with serving(command, Path({str(tmp_path / "log")!r})) as server:
                    await until_ready(server, path="/", timeout_s=30)
                    print(server.command.environment["MARK"], int(server.base_url.rpartition(":")[2]), flush=True)
                    await anyio.sleep(600)
            anyio.run(run)
            """
        )
    )
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    scratch, port = parent.stdout.readline().split()
    assert len(alive(scratch)) == 3
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert until(lambda: alive(scratch) == [] and is_free(int(port)))


def test_a_server_that_dies_before_it_is_ready_is_reported_at_once(tmp_path: Path) -> None:
    command = Command(
        argv=(sys.executable, "-c", "import sys; print('no luck'); sys.exit(3)"), environment={}
    )

    async def run() -> None:
        async with serving(command, tmp_path / "log") as server:
            await until_ready(server, path="/", timeout_s=60)

    started = time.monotonic()
    with pytest.raises(DeploymentError, match="ended with code 3") as caught:
        anyio.run(run)
    assert caught.value.kind == "exited"
    assert time.monotonic() - started < 20
    assert (tmp_path / "log").read_text() == "no luck\n"


def test_a_server_that_never_answers_times_out(tmp_path: Path) -> None:
    command = Command(argv=(sys.executable, "-c", "import time; time.sleep(600)"), environment={})

    async def run() -> None:
        async with serving(command, tmp_path / "log") as server:
            await until_ready(server, path="/", timeout_s=0.5)

    with pytest.raises(DeploymentError, match="not ready after") as caught:
        anyio.run(run)
    assert caught.value.kind == "timeout"


def test_a_command_that_does_not_exist_is_a_deployment_error(tmp_path: Path) -> None:
    async def run() -> None:
        async with serving(Command(argv=("/nowhere/python",), environment={}), tmp_path / "log"):
            pass

    with pytest.raises(DeploymentError, match="/nowhere/python"):
        anyio.run(run)


def test_a_server_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        "print('up', flush=True); time.sleep(600)"
    )

    async def run() -> int | None:
        async with serving(
            Command(argv=(sys.executable, "-c", stubborn), environment={}),
            tmp_path / "log",
            grace_s=0.3,
        ) as server:
            while "up" not in (tmp_path / "log").read_text():  # noqa: ASYNC110 - a file tells nobody
                await anyio.sleep(0.01)
        return server.exit_code

    assert anyio.run(run) == -signal.SIGKILL


def test_servers_inherit_only_named_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_PASSWORD", "x")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("HF_HOME", "/hf")
    found = environment(Command(argv=(), environment={"OWN": "1"}))
    assert "MY_PASSWORD" not in found
    assert (found["CUDA_VISIBLE_DEVICES"], found["HF_HOME"], found["OWN"]) == ("1", "/hf", "1")
    assert found["PATH"] == os.environ["PATH"]


def test_a_free_port_is_free() -> None:
    assert is_free(free_port())


def test_a_server_that_ends_at_once_is_reported_however_the_guard_s_lines_arrive(
    tmp_path: Path,
) -> None:
    async def run() -> int | None:
        command = Command(argv=("/bin/true",), environment={})
        async with serving(command, tmp_path / "log") as server:
            await server.ended.wait()
        return server.exit_code

    assert {anyio.run(run) for _ in range(8)} == {0}
