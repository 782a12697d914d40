"""What makes two experiments the same: the digest under which their evidence is kept."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import cattrs

from specbench.experiment.read import ReadExperiment
from specbench.redaction import scrubbed


def run_digest(read: ReadExperiment) -> str:
    """Give the digest of what is measured: the resolved experiment, without blocks and name."""
    resolved = scrubbed(resolve(read))
    resolved["design"].pop("blocks")
    resolved.pop("name")
    text = json.dumps(resolved, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def resolve(read: ReadExperiment) -> dict[str, Any]:
    """Give the experiment as plain values, with the digests of its workloads in it."""
    value: dict[str, Any] = cattrs.unstructure(read.experiment)
    value["workloads"] = [
        {"path": workload.path.name, "sha256": workload.sha256} for workload in read.workloads
    ]
    if read.correctness is not None:
        value["correctness"] |= {"workload": read.correctness.sha256}
    return value
