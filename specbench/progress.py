"""What a person sees while a run goes on: a live line on a terminal, plain lines when piped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from specbench.facts import JournalEntry, RequestRow
from specbench.units import duration_text

PHASES = {
    "launch": "launching",
    "ready": "waiting for a first completion",
    "audit": "auditing",
    "capture": "capturing greedy outputs",
    "warm": "warming up",
    "settle": "settling",
    "drive": "measuring",
    "write": "writing",
    "stop": "stopping",
}


class Progress:
    """Listens to the walk. `planned` is the number of deployments still to do."""

    def __init__(self, console: Console, planned: int) -> None:
        self._console = console
        self._planned = planned
        self._finished = 0
        self._started_s = time.monotonic()
        self._doing = ""
        self._tokens = 0
        self._drive_started_s = 0.0

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show a live line for the length of the block, where there is a terminal."""
        if not self._console.is_terminal:
            yield
            return
        with Live(
            console=self._console,
            refresh_per_second=4,
            transient=True,
            get_renderable=self._line,
        ):
            yield

    def listen(self, entry: JournalEntry) -> None:
        """Take one journal entry in."""
        if entry.state == "start":
            self._doing = " ".join(
                part for part in (entry.deployment, entry.cell, PHASES[entry.phase]) if part
            )
            if entry.phase == "drive":
                self._tokens, self._drive_started_s = 0, time.monotonic()
        elif entry.phase == "cell":
            self._console.print(Text(_cell_line(entry)))
        elif entry.phase == "deployment":
            self._finished += 1
            self._console.print(Text(self._deployment_line(entry)))

    def on_row(self, row: RequestRow) -> None:
        """Count the tokens of a finished request."""
        self._tokens += row.completion_tokens or 0

    def _line(self) -> Text:
        spent_s = time.monotonic() - self._started_s
        left = self._planned - self._finished
        eta = f", {duration_text(spent_s / self._finished * left)} left" if self._finished else ""
        rate = ""
        if "measuring" in self._doing and self._tokens:
            rate = f", {self._tokens / (time.monotonic() - self._drive_started_s):,.0f} tok/s"
        return Text(f"[{self._finished}/{self._planned}{eta}] {self._doing}{rate}")

    def _deployment_line(self, entry: JournalEntry) -> str:
        spent = duration_text(time.monotonic() - self._started_s)
        reason = f": {entry.detail['reason']}" if entry.detail["reason"] else ""
        done = f"[{self._finished}/{self._planned}, {spent}]"
        return f"{done} {entry.deployment} {entry.detail['status']}{reason}"


def _cell_line(entry: JournalEntry) -> str:
    detail = entry.detail
    parts = [f"  {entry.cell:<28}"]
    if detail["output_throughput"] is not None:
        parts.append(f"{detail['output_throughput']:8,.1f} tok/s")
    if detail["tpot_p50_s"] is not None:
        parts.append(f"TPOT {detail['tpot_p50_s'] * 1000:6.2f} ms")
    if detail["ttft_p50_s"] is not None:
        parts.append(f"TTFT {detail['ttft_p50_s'] * 1000:6.1f} ms")
    if detail["acceptance_rate"] is not None:
        parts.append(f"accepted {detail['acceptance_rate']:.0%}")
    if detail["rejected"]:
        parts.append(f"REJECTED {detail['rejected']}")
    return "  ".join(parts)
