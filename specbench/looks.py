"""Looks: each time that results of a run are shown is kept in its folder.

A person who sees results and then adds blocks may stop at a lucky moment. The record cannot prevent
that; it says how often there was a chance. Files that are opened without specbench leave no trace,
so it is a lower bound.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from contextlib import suppress

import attrs
import cattrs

from specbench.artifacts import RunFolder
from specbench.errors import StoreError
from specbench.whole_files import read_json

FILE = "looks.jsonl"


@attrs.frozen(kw_only=True)
class Look:
    """Results of a run were shown."""

    unix_s: float
    made_by: str
    """The command: run, report, query or export."""
    blocks: int
    """Blocks that could give an effect by then."""


def note_look(folder: RunFolder, made_by: str) -> None:
    """Note that results of a run are shown, by a command. A run without results has none to show.

    A folder that may not be written is left as it is: showing results must not fail.
    """
    with suppress(StoreError, OSError, LookupError, ValueError):
        blocks = measured_blocks(folder)
        if blocks:
            look = Look(unix_s=time.time(), made_by=made_by, blocks=blocks)
            with (folder.path / FILE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(attrs.asdict(look)) + "\n")


def looks(folder: RunFolder) -> tuple[Look, ...]:
    """Give the looks at a run, in their order; a line that a kill tore is left out."""
    path = folder.path / FILE
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with suppress(json.JSONDecodeError):
            found.append(cattrs.structure(json.loads(line), Look))
    return tuple(found)


def measured_blocks(folder: RunFolder) -> int:
    """Count the blocks that can give an effect: a plain baseline and another arm are whole."""
    arms = read_json(folder.path / "plan.json")["arms"]
    held: dict[str, set[bool]] = defaultdict(set)
    for attempt in folder.attempts():
        if (attempt.closing() or {}).get("status") == "complete":
            block, _, name = attempt.deployment.split("-", 2)
            held[block].add(arms[name]["role"] in ("baseline", "noise_floor"))
    return sum(len(kinds) == 2 for kinds in held.values())  # noqa: PLR2004 - plain and other
