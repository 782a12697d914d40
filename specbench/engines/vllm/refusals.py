"""What vLLM refuses at launch and can be known before: mistakes, and refusals of one version.

A mistake is what no version that we read has. A refusal is known only for a version that was
declared or read from the interpreter, and carries the file of vLLM that it was read in. What lies
between two read versions that differ is not known: such a launch is tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from specbench.engines.vllm import fields
from specbench.engines.vllm.fields import Version, shown
from specbench.errors import Problem
from specbench.experiment.model import Target
from specbench.methods import Launch

WITHOUT_ASYNC = ("ngram", "suffix", "medusa")
"""Methods with which 0.23 to 0.32 refuse an explicit --async-scheduling."""
SPECULATIVE = "vllm/config/speculative.py"
CONFIG = "vllm/config/vllm.py"


def problems(target: Target, launch: Launch) -> Iterator[Problem]:
    """Give the mistakes of a launch, and with their source what the target's version refuses."""
    version = fields.parsed(target.version) if target.version else fields.NEWEST
    if version is None:
        yield Problem(f"version {target.version!r} is no version", "write one such as 0.23.0")
        return
    if version < fields.FIRST:
        yield Problem(f"vLLM {target.version} is older than {shown(fields.FIRST)}")
        return
    yield from _mistakes(launch.speculation)
    if target.version:
        yield from _refused_fields(version, launch.speculation)
        yield from _refused_method(version, launch.speculation)
        flags = {name.replace("_", "-"): value for name, value in target.flags.items()}
        yield from _refused_flags(version, flags, launch.speculation)
        yield from _no_budget(version, flags, launch.speculation)


def _mistakes(speculation: Mapping[str, Any]) -> Iterator[Problem]:
    for field in speculation:
        if field not in fields.SINCE:
            yield Problem(f"no vLLM up to {shown(fields.NEWEST)} has the field {field!r}")
    method = speculation.get("method")
    if method and method not in fields.METHODS:
        yield Problem(f"vLLM has no speculative method {method!r}")


def _refused_fields(version: Version, speculation: Mapping[str, Any]) -> Iterator[Problem]:
    for field in speculation:
        since = fields.SINCE.get(field, fields.FIRST)
        if fields.known_before(version, since):
            yield Problem(
                f"vLLM {shown(version)} does not know the field {field!r}",
                f"{shown(since)} does",
                source=f"{SPECULATIVE} of {shown(fields.read_before(since))} and {shown(since)}",
            )


def _refused_method(version: Version, speculation: Mapping[str, Any]) -> Iterator[Problem]:
    method = str(speculation.get("method"))
    first, ended = fields.METHODS.get(method, (fields.FIRST, None))
    refusal = f"vLLM {shown(version)} does not serve method {method!r}"
    if fields.known_before(version, first):
        last = shown(fields.read_before(first))
        source = f"{SPECULATIVE} of {last} and {shown(first)}"
        yield Problem(refusal, f"{shown(first)} does", source=source)
    if ended and version >= ended:
        last = shown(fields.read_before(ended))
        source = f"{SPECULATIVE} of {last} and {shown(ended)}"
        yield Problem(refusal, f"{last} does", source=source)


def _refused_flags(
    version: Version, flags: Mapping[str, Any], speculation: Mapping[str, Any]
) -> Iterator[Problem]:
    method = speculation.get("method")
    asynchronous = flags.get("async-scheduling") is True and method in WITHOUT_ASYNC
    if asynchronous and (0, 23) <= version <= (0, 32):
        yield Problem(
            f"vLLM {shown(version)} refuses the flag async-scheduling with method {method!r}",
            "leave the flag out",
            source=f"{CONFIG}, 0.23 to 0.32",
        )
    per_request = flags.get("per-request-spec-decode-metrics", "none") != "none"
    if per_request and not speculation and version >= (0, 32):
        yield Problem(
            f"vLLM {shown(version)} refuses the flag per-request-spec-decode-metrics without "
            "speculation",
            "leave the flag out",
            source=f"{CONFIG}, 0.32+",
        )


def _no_budget(
    version: Version, flags: Mapping[str, Any], speculation: Mapping[str, Any]
) -> Iterator[Problem]:
    """Give a draft model whose reserved slots, one a sequence, take the whole token budget."""
    budget, sequences = flags.get("max-num-batched-tokens"), flags.get("max-num-seqs")
    drafting = speculation.get("method") == "draft_model" and (0, 23) <= version <= (0, 24)
    if drafting and isinstance(budget, int) and isinstance(sequences, int) and budget <= sequences:
        yield Problem(
            f"max-num-batched-tokens {budget} leaves a draft model nothing to schedule with "
            f"max-num-seqs {sequences}",
            "raise the first or lower the second",
            source=f"{CONFIG}, 0.23 and 0.24",
        )
