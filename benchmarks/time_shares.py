"""Where the time of a run went, from its journal: launching, measuring, and the rest.

    python benchmarks/time_shares.py runs/NAME-DIGEST

Launching is spawn to ready and stop to port free. Measuring is captures, warm-up, settling and
driving. The rest is ours: auditing, judging, writing, and what lies between.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path

from specbench.artifacts import RunFolder
from specbench.facts import JournalEntry
from specbench.units import seconds

LAUNCHING = ("launch", "ready", "stop")
MEASURING = ("capture", "warm", "settle", "drive")
MOST_REST = 0.05


def spent_s(journal: list[JournalEntry]) -> dict[str, float]:
    """Give the seconds of each phase."""
    total: dict[str, float] = defaultdict(float)
    started: dict[str, int] = {}
    for entry in journal:
        if entry.state == "start":
            started[entry.phase] = entry.monotonic_ns
        elif entry.state == "end":
            total[entry.phase] += seconds(entry.monotonic_ns - started.pop(entry.phase))
    return dict(total)


def main() -> None:
    """Print the table and exit 1 when the rest is 5% or more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    journal = RunFolder(parser.parse_args().run).journal()
    whole_s = seconds(journal[-1].monotonic_ns - journal[0].monotonic_ns)
    phases = spent_s(journal)
    launching = sum(phases.get(phase, 0.0) for phase in LAUNCHING)
    measuring = sum(phases.get(phase, 0.0) for phase in MEASURING)
    rest = whole_s - launching - measuring
    for phase, phase_s in sorted(phases.items(), key=lambda item: -item[1]):
        print(f"{phase:<10} {phase_s:8.2f} s  {phase_s / whole_s:6.1%}")
    print(f"whole      {whole_s:8.2f} s")
    print(
        f"launching {launching / whole_s:.1%}, measuring {measuring / whole_s:.1%}, "
        f"rest {rest / whole_s:.2%} (must be under {MOST_REST:.0%})"
    )
    raise SystemExit(rest / whole_s >= MOST_REST)


if __name__ == "__main__":
    main()
