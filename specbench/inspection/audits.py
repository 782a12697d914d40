"""Any launch log to its audit, and several to what may not be compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from specbench.engines.known import ENGINES
from specbench.errors import StoreError
from specbench.facts import Audit, Cause, Difference
from specbench.judge.confounds import differences, scoped
from specbench.observe.logs import audit_lines, read_lines
from specbench.properties import PROPERTIES, property_of, shown

CAUSE_BYTES = 2_000_000
"""End of a log in which the cause of a fallen server is looked for."""


@attrs.frozen(kw_only=True)
class Audited:
    """The audit of one place."""

    place: str
    audit: Audit
    cause: Cause | None
    """Why the server did not stay up; None where it did."""

    @property
    def unknown(self) -> tuple[str, ...]:
        """Give the known properties that no source states."""
        stated = {fact.name for fact in self.audit.facts}
        ends = ("served", "engine_died", "preemptions_logged")
        return tuple(name for name in PROPERTIES if name not in stated and name not in ends)


def audit_of(place: Path, engine: str) -> Audited:
    """Give the audit of a launch log, or of a folder with `launch.log` and `server_info.json`.

    Raises:
        StoreError: There is no such log, or the configuration beside it is no JSON.
    """
    log = place / "launch.log" if place.is_dir() else place
    if not log.is_file():
        raise StoreError(f"no launch log at {log}", "name a log, or a folder with a launch.log")
    family = ENGINES[engine]
    config = _configuration(place / "server_info.json") if place.is_dir() else {}
    facts = family.config_facts(config)
    found = audit_lines(read_lines(log), family.log_patterns(), facts)
    fell = found.typed("served") is not True or found.typed("engine_died") is True
    return Audited(
        place=str(place), audit=found, cause=family.cause(_end_of(log)) if fell else None
    )


def compared(audits: Sequence[Audited]) -> dict[str, tuple[Difference, ...]]:
    """Give what differs between the first audit, the baseline's, and each of the others."""
    first, *others = audits
    return scoped({item.place: differences(first.audit, item.audit, ()) for item in others})


def audit_facts(item: Audited) -> dict[str, Any]:
    """Give an audit as plain values."""
    return {
        "place": item.place,
        "facts": {
            fact.name: {
                "value": item.audit.typed(fact.name),
                "shown": shown(fact.name, fact.value),
                "source": fact.source,
            }
            for fact in sorted(item.audit.facts, key=lambda fact: _place(fact.name))
        },
        "unknown": list(item.unknown),
        "warnings": [attrs.asdict(warning) for warning in item.audit.warnings],
        "cause": item.cause and attrs.asdict(item.cause),
    }


def comparison_facts(found: Mapping[str, Sequence[Difference]]) -> list[dict[str, Any]]:
    """Give differences as plain rows."""
    return [
        {
            "arm": place,
            "title": property_of(difference.fact).title,
            "arm_value": difference.arm,
            **attrs.asdict(difference, filter=lambda field, _: field.name != "arm"),
        }
        for place, differing in found.items()
        for difference in differing
    ]


def _place(name: str) -> int:
    names = list(PROPERTIES)
    return names.index(name) if name in names else len(names)


def _configuration(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise StoreError(
            f"{path} is no JSON: {error}", "remove it: the log is read alone"
        ) from error
    return found if isinstance(found, Mapping) else {}


def _end_of(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(log.stat().st_size - CAUSE_BYTES, 0))
        return file.read().decode("utf-8", "replace")
