"""How long the audit of a long launch log takes, and how much memory.

    python benchmarks/audit.py [LAUNCH.LOG]

Writes a log of 50 MB (a launch, then nine access lines for each line of the launch, repeated), runs
`specbench audit` on it in a process of its own, prints wall time and peak memory of the best of
five, and exits 1 when that is not under 2 s and 100 MB.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 5
SIZE = 50_000_000
MOST_S, MOST_BYTES = 2.0, 100_000_000
ACCESS = (
    b'(APIServer pid=1) INFO:     127.0.0.1:38982 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
)
LOG = "tests/captures/launches/vllm-0.23.0-h200/draft-k3.log"


def write_long_log(launch: Path, path: Path) -> None:
    """Write a log of 50 MB."""
    lines = launch.read_bytes().splitlines(keepends=True)
    once = b"".join(line + ACCESS * 9 for line in lines)
    with path.open("wb") as file:
        while file.tell() < SIZE:
            file.write(once)


def measured(path: Path) -> tuple[float, int]:
    """Give wall seconds and peak bytes of one audit by the command line."""
    command = [str(Path(sys.executable).parent / "specbench"), "audit", str(path)]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(process.returncode)
    return time.perf_counter() - started, usage.ru_maxrss * 1024


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", nargs="?", type=Path, default=Path(LOG))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.log"
        write_long_log(parser.parse_args().log, path)
        runs = [measured(path) for _ in range(RUNS)]
    took_s, peak = min(took for took, _ in runs), max(peak for _, peak in runs)
    print(f"specbench audit  {took_s:.2f} s (must be under {MOST_S:g} s)")
    print(f"peak memory      {peak / 1e6:.0f} MB (must be under {MOST_BYTES / 1e6:g} MB)")
    raise SystemExit(took_s >= MOST_S or peak >= MOST_BYTES)


if __name__ == "__main__":
    main()
