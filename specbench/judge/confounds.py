"""What differs between an arm's deployment and the baseline's, besides the method. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from specbench.facts import Audit, Difference
from specbench.methods import Confound

OWN_TO_SPECULATION = frozenset(
    ("method", "num_speculative_tokens", "drafter", "draft_tensor_parallel")
)
"""Facts that differ because the method is another one: what is compared, not a confound."""

MEASURED = frozenset(("load_s", "engine_start_s", "model_memory_gib", "kv_cache_memory_gib"))
"""Facts that are readings, and vary between equal launches."""

CONTROLLED = frozenset(
    (
        "tokenizer",
        "max_model_len",
        "gpu_memory_utilization",
        "generation_config",
        "dtype",
        "quantization",
        "tensor_parallel",
        "engine_version",
        "prefix_caching",
    )
)
"""Facts that must be equal: a difference rejects the comparison."""

UNEXPLAINED = "differs for a reason that the method does not name: direction unclear"


def differences(baseline: Audit, arm: Audit, named: Iterable[Confound]) -> tuple[Difference, ...]:
    """Give every difference between two audits, controlled ones first.

    A fact that only one side states is a difference to `unknown`, except the token budget of
    scheduled tokens, which vLLM prints only with speculation: it is compared with the batched one.
    """
    meanings = {confound.fact: confound.meaning for confound in named}
    found = list(_differences(baseline, arm, meanings))
    return tuple(sorted(found, key=lambda difference: (not difference.controlled, difference.fact)))


def _differences(baseline: Audit, arm: Audit, meanings: dict[str, str]) -> Iterator[Difference]:
    names = {fact.name for fact in (*baseline.facts, *arm.facts)}
    for name in sorted(names - OWN_TO_SPECULATION - MEASURED):
        ours, theirs = _stated(baseline, name), _stated(arm, name)
        if ours == theirs:
            continue
        yield Difference(
            fact=name,
            baseline=ours or "unknown",
            arm=theirs or "unknown",
            meaning=meanings.get(name, UNEXPLAINED),
            controlled=name in CONTROLLED and None not in (ours, theirs),
        )


def _stated(audit: Audit, name: str) -> str | None:
    if name == "max_num_scheduled_tokens":
        return audit.value(name) or audit.value("max_num_batched_tokens")
    return audit.value(name)
