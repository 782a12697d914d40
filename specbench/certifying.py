"""The client's certificate: made when there is none for this machine and load, kept for a week."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import cattrs

from specbench.client_facts import Certificate
from specbench.errors import StoreError
from specbench.experiment.model import Gates
from specbench.facts import Verdict
from specbench.judge.cells import rejected
from specbench.judge.client import certificate_verdicts
from specbench.traffic import certificate
from specbench.traffic.event_loop import event_loop_options
from specbench.whole_files import cache_folder, read_json, write_json

KEPT_S = 7 * 24 * 3600
TRIES = 2
"""A machine may be busy for a moment."""


def certified(
    streams: int, events_per_s: float, required: Gates, processes: int = 1, *, renew: bool = False
) -> Certificate:
    """Give a certificate that covers a load: a kept one that passes, else a new one.

    A new one takes some two seconds, and twice that where the first does not pass.
    """
    for kept in () if renew else _kept():
        covers = kept.streams >= streams and kept.events_per_s >= events_per_s
        if (
            covers
            and kept.client.processes == processes
            and not rejected(certificate_verdicts(kept, required))
        ):
            return kept
    for _ in range(TRIES):
        made: Certificate = anyio.run(
            certificate.certify,
            streams,
            events_per_s,
            processes,
            backend_options=event_loop_options(),
        )
        if not rejected(certificate_verdicts(made, required)):
            _keep(made)
            break
    return made


def failures(made: Certificate, required: Gates) -> list[Verdict]:
    """Give what keeps a certificate from being one."""
    return [v for v in certificate_verdicts(made, required) if v.outcome == "fail"]


def _folder() -> Path:
    return cache_folder() / "certificates"


def _kept() -> Iterator[Certificate]:
    for path in sorted(_folder().glob("*.json")):
        try:
            kept = cattrs.structure(read_json(path), Certificate)
        except (StoreError, cattrs.BaseValidationError):
            # Of another version, or torn: a new one is made.
            continue
        age_s = time.time() - kept.made_unix_s
        if kept.machine == certificate.machine() and 0 <= age_s < KEPT_S:
            yield kept


def _keep(made: Certificate) -> None:
    load = f"{made.machine} {made.streams} {made.events_per_s} {made.client.processes}"
    name = hashlib.sha256(load.encode()).hexdigest()[:16]
    try:
        _folder().mkdir(parents=True, exist_ok=True)
        write_json(_folder() / f"{name}.json", made)
    except OSError:
        # A home that cannot be written costs a new certificate next time.
        return
