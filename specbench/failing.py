"""Why a deployment failed: what we saw, and the cause that its log states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from specbench.engines.contract import Engine
from specbench.errors import DeploymentError
from specbench.facts import Cause


def failure(
    engine: Engine, log: Path, error: DeploymentError, exit_code: int | None
) -> dict[str, Any]:
    """Give the reason as plain values: our own view, and the cause that the log states."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    if not text:
        return {"reason": error.message, "kind": error.kind}
    cause = engine.cause(text)
    if cause.kind == "unknown":
        cause = _seen_from_outside(error, exit_code) or cause
    return {
        "reason": f"{error.message}. Cause: {cause.line}",
        "kind": error.kind,
        "cause": attrs.asdict(cause),
    }


def _seen_from_outside(error: DeploymentError, exit_code: int | None) -> Cause | None:
    """Give the cause that a silent log leaves to us: a signal, or the time that ran out."""
    if error.kind == "timeout":
        remedy = "raise launcher.ready_timeout_s, or see in the launch log what it waits for"
        return Cause(kind="timeout", line=error.message, remedy=remedy)
    if exit_code is not None and exit_code < 0:
        line = f"ended by signal {-exit_code}"
        remedy = "somebody, or the kernel for want of memory, ended it: see the system's log"
        return Cause(kind="killed", line=line, remedy=remedy)
    return None
