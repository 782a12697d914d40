"""Why a vLLM server did not come up: the cause above its generic last line.

Texts are those of vLLM 0.11 to 0.33 and of the libraries under it; each was read in a source or in
a captured log.
"""

from __future__ import annotations

import re

import attrs

from specbench.facts import Cause


@attrs.frozen
class _Known:
    kind: str
    pattern: re.Pattern[str]
    remedy: str


def _known(kind: str, pattern: str, remedy: str) -> _Known:
    return _Known(kind, re.compile(pattern), remedy)


KNOWN: tuple[_Known, ...] = (
    _known(
        "out_of_memory",
        r"OutOfMemoryError|out of memory|std::bad_alloc|DefaultCPUAllocator: can't allocate",
        "lower gpu-memory-utilization or max_model_len, or take a smaller draft",
    ),
    _known(
        "out_of_memory",
        r"No available memory for the cache blocks|GiB KV cache is needed|"
        r"less than requested memory for kv",
        "raise gpu-memory-utilization, or lower max_model_len or the KV space",
    ),
    _known(
        "out_of_memory",
        r"Free memory on device .* on startup is less than desired",
        "another process holds the accelerator: stop it, or lower gpu-memory-utilization",
    ),
    _known("port_in_use", r"[Aa]ddress already in use", "another process holds the port"),
    _known(
        "missing_model",
        r"Repo id must be in the form|Invalid repository ID or local directory|"
        r"is not a local folder and is not a valid model identifier|LocalEntryNotFoundError",
        "write the absolute path of a checkpoint that exists on this machine",
    ),
    _known(
        "bad_flag",
        r"error: (?:argument|unrecognized arguments)",
        "the server does not take this flag or its value: mend target.flags",
    ),
    _known(
        "missing_library",
        r"Arctic Inference is required",
        "install arctic-inference into the server's environment",
    ),
    _known(
        "refused_configuration",
        r"draft_tensor_parallel_size.*(?:must be the same|cannot be other value)",
        "give the draft the target's tensor parallelism",
    ),
    _known(
        "refused_configuration",
        r"should have the same vocabulary size",
        "draft and target must share one vocabulary",
    ),
    _known(
        "refused_configuration",
        r"max_model_len .*is greater than the derived",
        "lower target.max_model_len",
    ),
    _known(
        "refused_configuration",
        r"Not enough allowed NUMA nodes",
        "set VLLM_CPU_OMP_THREADS_BIND in target.env",
    ),
)

_PREFIX = re.compile(
    r"^(?:\x1b\[[0-9;]*m)*(?:\([\w-]+ pid=\d+\)\s*)?(?:\x1b\[[0-9;]*m)*"
    r"(?:(?:ERROR|CRITICAL)\s+\d\d-\d\d \d\d:\d\d:\d\d\s+\[[^\]]+\]\s?)?"
)
# Whatever a server logs is shown on a terminal: colours and other control codes stay behind.
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
_EXCEPTION = re.compile(r"^(?:[\w.]+\.)?\w*(?:Error|Exception|Exit)\b(?::|$)")
_GENERIC = re.compile(
    r"Engine core initialization failed|EngineDeadError|EngineCore encountered an issue|"
    r"WorkerProc (?:hit an exception|failed)|cancelled error|KeyboardInterrupt"
)


def cause(log: str) -> Cause:
    """Give kind, line and remedy of the root cause.

    The first exception that is not generic wins: what follows it is its consequence. A known text
    decides the kind wherever it stands.
    """
    lines = [_PREFIX.sub("", _CONTROL.sub("", line)).rstrip() for line in log.splitlines()]
    roots = [place for place, line in enumerate(lines) if _is_root(line)]
    for known in KNOWN:
        for place in roots:
            said = _whole(lines, place)
            if known.pattern.search(said):
                return Cause(kind=known.kind, line=said, remedy=known.remedy)
    if roots:
        said = _whole(lines, roots[0])
        refused = "alidationError" in said or said.startswith("ValueError")
        kind = "refused_configuration" if refused else "crash"
        return Cause(kind=kind, line=said, remedy="see the launch log for the whole traceback")
    last = next((line for line in reversed(lines) if line.strip()), "the log is empty")
    return Cause(kind="unknown", line=last, remedy="see the launch log")


def _is_root(line: str) -> bool:
    if _GENERIC.search(line):
        return False
    return bool(_EXCEPTION.match(line)) or ": error: " in line or "address already in use" in line


def _whole(lines: list[str], place: int) -> str:
    """Give an exception's line with what pydantic writes on the lines under it."""
    said = lines[place].strip()
    if "validation error" in said:
        said = " ".join([said, *(line.strip() for line in lines[place + 1 : place + 3])])
    return said
