"""The guard: a small process between specbench and a server, so that no server outlives its run.

It starts the server in a session of its own, adopts whatever the server leaves behind, and ends
everything when its standard input closes: on a normal stop, and however else specbench died. It
speaks one JSON object a line: `{"pid": N}` when the server is started, `{"exit": CODE}` when it is
gone. Standard library only, because it must start fast and depend on nothing.

Input: one line of JSON with argv, environment, cwd, log and grace_s; then nothing until it closes.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
KILL_WAIT_S = 10.0


def main() -> None:
    """Guard one server until it ends or our input closes."""
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    order = json.loads(sys.stdin.buffer.readline())
    server = _start(order)
    _say({"pid": server.pid})
    code = _wait(server)
    if code is None:
        _end_group(server.pid, signal.SIGTERM, grace_s=float(order["grace_s"]))
        code = server.poll()
    _end_descendants(server)
    _say({"exit": server.wait() if code is None else code})


def _start(order: dict[str, Any]) -> subprocess.Popen[bytes]:
    with Path(order["log"]).open("ab", buffering=0) as log:
        return subprocess.Popen(
            order["argv"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=order["environment"],
            cwd=order["cwd"],
            start_new_session=True,
            preexec_fn=_die_with_guard,  # noqa: PLW1509 - the guard has no second thread
        )


def _die_with_guard() -> None:
    for restored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(restored, signal.SIG_DFL)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    # Where there is no prctl the pipe alone guards, which covers all but the guard's own death.
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _wait(server: subprocess.Popen[bytes]) -> int | None:
    """Wait for the server's end (its exit code) or for our input to close (None)."""
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        code = server.poll()
        if code is not None:
            return code
        ready, _, _ = select.select([sys.stdin, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
        if sys.stdin in ready and not os.read(sys.stdin.fileno(), 4096):
            return None


def _end_group(group: int, first: signal.Signals, *, grace_s: float) -> None:
    """Ask a process group to end, and kill it when it has not within the grace time."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, first)
    until = time.monotonic() + grace_s
    while time.monotonic() < until and _reap_one(group):
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _reap_one(pid: int) -> bool:
    """Tell whether a child still runs, without taking its exit code."""
    with contextlib.suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
    return False


def _end_descendants(server: subprocess.Popen[bytes]) -> None:
    """Kill and reap what the server left behind, also in groups of its own."""
    until = time.monotonic() + KILL_WAIT_S
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()
    while time.monotonic() < until:
        for pid in _children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.01)
        except ChildProcessError:
            return


def _children() -> list[int]:
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii")
    except OSError:
        return []
    return [int(pid) for pid in text.split()]


def _say(message: dict[str, int]) -> None:
    # specbench may be gone; then nobody listens, and the server still has to end.
    with contextlib.suppress(OSError):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
