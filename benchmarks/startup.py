"""How long the command line takes to answer: `--help` and `check`.

    python benchmarks/startup.py [SPEC]

Prints the median of 15 runs each and exits 1 when `--help` takes 0.15 s or `check` 1 s.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from pathlib import Path

RUNS = 15
MOST_S = {"--help": 0.15, "check": 1.0}


def median_s(*arguments: str) -> float:
    """Give the median wall time of a command in seconds, after one run that warms the disk."""
    command = [str(Path(sys.executable).parent / "specbench"), *arguments]
    taken = []
    for _ in range(RUNS + 1):
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken[1:])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("spec", nargs="?", default="specs/quickstart.yaml")
    spec = parser.parse_args().spec
    found = {"--help": median_s("--help"), "check": median_s("check", spec)}
    for name, took_s in found.items():
        print(f"specbench {name:<8} {took_s:.3f} s (must be under {MOST_S[name]} s)")
    raise SystemExit(any(took_s >= MOST_S[name] for name, took_s in found.items()))


if __name__ == "__main__":
    main()
