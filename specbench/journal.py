"""The journal of a run: every step of the walk is written down and told, as it happens."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from specbench.artifacts import RunFolder
from specbench.facts import JournalEntry

Listener = Callable[[JournalEntry], None]


class Journal:
    """Writes entries into a run folder and tells a listener of each."""

    def __init__(self, folder: RunFolder, listen: Listener) -> None:
        self._folder = folder
        self._listen = listen

    def note(self, phase: str, deployment: str, detail: Mapping[str, Any], cell: str = "") -> None:
        """Write one remark."""
        self._tell(phase, "note", deployment, cell, detail)

    @contextmanager
    def phase(self, phase: str, deployment: str, cell: str = "", **detail: Any) -> Iterator[None]:
        """Write the start and the end of a block."""
        self._tell(phase, "start", deployment, cell, detail)
        try:
            yield
        finally:
            self._tell(phase, "end", deployment, cell, {})

    def _tell(
        self,
        phase: str,
        state: Literal["start", "end", "note"],
        deployment: str,
        cell: str,
        detail: Mapping[str, Any],
    ) -> None:
        entry = JournalEntry(
            unix_s=time.time(),
            monotonic_ns=time.perf_counter_ns(),
            phase=phase,
            state=state,
            deployment=deployment,
            cell=cell,
            # A server's words may repeat a secret, and the listener shows them.
            detail=json.loads(self._folder.redaction.text(json.dumps(detail))),
        )
        self._folder.note(entry)
        self._listen(entry)
