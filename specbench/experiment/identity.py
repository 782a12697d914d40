"""What makes two experiments the same: the digest under which their evidence is kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import cattrs

from specbench.experiment.read import ReadExperiment
from specbench.redaction import scrubbed


def run_digest(read: ReadExperiment) -> str:
    """Give the digest of what is measured: the resolved experiment, without blocks and name."""
    text = json.dumps(_measured(resolve(read)), sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def resolve(read: ReadExperiment) -> dict[str, Any]:
    """Give the experiment as plain values, with the digests of its workloads in it."""
    value: dict[str, Any] = cattrs.unstructure(read.experiment)
    value["workloads"] = [
        {"path": workload.path.name, "sha256": workload.sha256} for workload in read.workloads
    ]
    if read.trace_s:
        trace = json.dumps(read.trace_s).encode()
        value["load"]["open"] |= {"trace": hashlib.sha256(trace).hexdigest()}
    if read.correctness is not None:
        value["correctness"] |= {"workload": read.correctness.sha256}
    return value


def changed_parts(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Give the parts of a document in which two resolved experiments measure something else."""
    old, new = (json.loads(json.dumps(_measured(item), default=str)) for item in (before, after))
    if new["target"]["version"] is None:
        # The plan of a run holds the version that was read from the interpreter.
        old["target"]["version"] = None
    return sorted(key for key in {*old, *new} if old.get(key) != new.get(key))


def _measured(resolved: Mapping[str, Any]) -> dict[str, Any]:
    measured: dict[str, Any] = scrubbed(resolved)
    design = {key: value for key, value in measured["design"].items() if key != "blocks"}
    return {key: value for key, value in measured.items() if key != "name"} | {"design": design}
