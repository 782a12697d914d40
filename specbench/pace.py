"""How long the next step of a walk will take, from how long its like has taken. Pure.

`run --for 9m` starts nothing that it cannot finish: a lent machine goes back in time, and no window
is cut.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import attrs

from specbench.facts import JournalEntry
from specbench.units import seconds

MARGIN = 1.2
"""Factor on the longest that was seen: the next one may take a little longer."""
_UNITS = {"s": 1, "m": 60, "h": 3600}
_PART = re.compile(r"(\d+(?:\.\d+)?)([smh])")


@attrs.frozen(kw_only=True)
class Pace:
    """Longest durations of a run so far, in seconds. Unknown ones are 0: nothing was seen yet."""

    serving_s: float = 0.0
    """A deployment without its cells: launch, readiness, audit, captures and stop."""
    cells_s: Mapping[str, float] = attrs.field(factory=dict)
    """Each cell by name: warm-up, settling, driving, writing."""

    def deployment_s(self, cells: Iterable[str]) -> float:
        """Give the time of a deployment that measures these cells."""
        return MARGIN * self.serving_s + sum(map(self.cell_s, cells))

    def is_worth_a_launch(self, cells: Sequence[str], left_s: float, *, first: bool) -> bool:
        """Tell whether a deployment is started with so much time left.

        Whole ones are. A part is launched again for its rest, so only the `first` of a walk may be
        one: where no walk of this length holds a whole deployment, it still gets on.
        """
        return self.deployment_s(cells) <= left_s or (
            first and self.deployment_s(cells[:1]) <= left_s
        )

    def cell_s(self, name: str) -> float:
        """Give the time of a cell; of the longest known one when it was never measured."""
        longest = max(self.cells_s.values(), default=0.0)
        return MARGIN * self.cells_s.get(name, longest)


def pace(journal: Iterable[JournalEntry]) -> Pace:
    """Give the pace of a run from its journal."""
    started: dict[tuple[str, str, str], int] = {}
    serving: dict[str, float] = defaultdict(float)
    measuring: dict[tuple[str, str], float] = defaultdict(float)
    for entry in journal:
        key = (entry.phase, entry.deployment, entry.cell)
        if entry.state == "start":
            started[key] = entry.monotonic_ns
        elif entry.state == "end" and key in started:
            spent_s = seconds(entry.monotonic_ns - started.pop(key))
            if entry.cell:
                measuring[entry.deployment, entry.cell] += spent_s
            else:
                serving[entry.deployment] += spent_s
    cells: dict[str, float] = defaultdict(float)
    for (_, cell), spent_s in measuring.items():
        cells[cell] = max(cells[cell], spent_s)
    return Pace(serving_s=max(serving.values(), default=0.0), cells_s=dict(cells))


def parse_duration_s(text: str) -> float:
    """Give `90s`, `9m` or `1h30m` in seconds.

    Raises:
        ValueError: The text is no duration.
    """
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration; write 90s, 9m or 1h30m")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)
