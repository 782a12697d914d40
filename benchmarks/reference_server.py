"""The reference programs in C++: built with g++, run on a core, the server asked for its truth."""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parent / "reference"
SERVER_CORE, CLIENT_CORE = 0, 1
ID_BYTES = 40
LONGEST_ID = 36
Truth = dict[str, tuple[int, tuple[int, ...]]]


def built(name: str, folder: Path) -> Path:
    """Build a program from its source, and give its path."""
    program = folder / name
    flags = ["-O2", "-march=native", "-std=c++17"]
    subprocess.run(["g++", *flags, "-o", program, SOURCES / f"{name}.cpp"], check=True)
    return program


def on_core(core: int, command: Sequence[str | Path]) -> list[str]:
    """Give a command that runs on one core, before others where we may say so."""
    first = ["nice", "-n", "-10"] if os.geteuid() == 0 else []
    return [*first, "taskset", "-c", str(core), *map(str, command)]


def require_tools() -> None:
    """Say what is missing before anything is measured."""
    missing = [name for name in ("g++", "taskset") if shutil.which(name) is None]
    if missing or (os.cpu_count() or 1) < 2:
        sys.exit(
            f"two cores, g++ and taskset are needed; missing: {', '.join(missing) or 'a core'}"
        )


class ReferenceServer:
    """A running reference server."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def set_up(self, *, ttft_ms: float, itl_ms: float, record: bool) -> None:
        """Set the pace, and forget what was before."""
        pace = f"ttft_us={ttft_ms * 1000:.0f}&itl_us={itl_ms * 1000:.0f}"
        self._get(f"/config?{pace}&record={int(record)}&coalesce=1&spin=1")
        self._get("/reset")

    def stats(self) -> dict[str, Any]:
        """Give what the server says of itself: its times, its lateness, its counts."""
        said: dict[str, Any] = json.loads(self._get("/stats"))
        return said

    def truth(self) -> Truth:
        """Give, by request id, when a request was received and when each token's event was sent."""
        raw = self._get("/gt")
        found: Truth = {}
        place = 0
        while place < len(raw):
            name = raw[place : place + ID_BYTES].rstrip(b"\0").decode()
            received, count = struct.unpack_from("QQ", raw, place + ID_BYTES)
            start = place + ID_BYTES + 16
            found[name] = received, struct.unpack_from(f"{count}Q", raw, start)
            place = start + 8 * count
        return found

    def _get(self, path: str) -> bytes:
        with self._opener.open(self.url + path) as answer:
            body: bytes = answer.read()
        return body


@contextmanager
def serving(program: Path) -> Iterator[ReferenceServer]:
    """Run the reference server for the length of the block."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = on_core(SERVER_CORE, [program, "--port", str(port)])
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        server = ReferenceServer(port)
        try:
            for _ in range(100):
                try:
                    server.stats()
                    break
                except OSError:
                    time.sleep(0.05)
            yield server
        finally:
            process.kill()
