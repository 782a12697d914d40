"""Asked against effective: did the server run the method that the arm asked for? Pure."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from specbench.experiment.model import Sampling
from specbench.facts import Audit, Verdict
from specbench.methods import Expected

CUTTING = frozenset(("top_p", "top_k", "min_p"))
"""Settings that cut candidates off: without effect on a greedy request."""


def judge(
    audit: Audit, expected: Expected, samplings: Iterable[Sampling] = ()
) -> tuple[Verdict, ...]:
    """Rule on method, depth, drafter, parallelism and sampling. A failed verdict rejects."""
    return (*_verdicts(audit, expected), *_sampling_verdicts(audit, samplings))


def in_effect(verdicts: tuple[Verdict, ...]) -> bool:
    """Tell whether the deployment may be measured."""
    return not any(verdict.outcome == "fail" for verdict in verdicts)


def _verdicts(audit: Audit, expected: Expected) -> Iterator[Verdict]:
    wanted = expected.methods or ("none",)
    yield _ruled("method", audit.value("method"), wanted)
    for fact, value in sorted(expected.properties.items()):
        yield _ruled(fact, audit.value(fact), (value,))
    if not expected.methods:
        return
    if expected.longest_draft and expected.depth != "by_batch_size":
        depth = str(expected.longest_draft)
        yield _ruled("num_speculative_tokens", audit.value("num_speculative_tokens"), (depth,))
    if expected.drafter is not None:
        yield _ruled("drafter", audit.value("drafter"), (expected.drafter,))


def _sampling_verdicts(audit: Audit, samplings: Iterable[Sampling]) -> Iterator[Verdict]:
    """Give a failed verdict for each sampling that the model's own defaults would change.

    A server takes what a request leaves out from the model's generation config, unless it was
    started with `--generation-config vllm` (vllm/config/model.py:get_diff_sampling_param). Greedy
    requests do not feel how candidates are cut off, but do feel penalties.
    """
    stated = audit.value("default_sampling")
    if stated is None:
        return
    defaults = _parsed(stated)
    for sampling in samplings:
        sent = {"temperature", "max_tokens"}
        sent |= {name for name in ("top_p", "top_k") if getattr(sampling, name) is not None}
        if sampling.temperature == 0:
            sent |= CUTTING
        changed = sorted(f"{k}={v}" for k, v in defaults.items() if k not in sent)
        yield Verdict(
            gate="in_effect.sampling",
            outcome="fail" if changed else "pass",
            observed=", ".join(changed) or "nothing that is not asked for",
            required=f"only what sampling {sampling.name!r} asks for",
            advice="write it into the sampling, or target.flags: {generation-config: vllm}"
            if changed
            else "",
        )


def _parsed(stated: str) -> Mapping[str, object]:
    """Give the defaults that a log line states; a line that cannot be read is one unknown."""
    try:
        found = ast.literal_eval(stated)
    except (ValueError, SyntaxError):
        return {"defaults": stated}
    return found if isinstance(found, dict) else {"defaults": stated}


def _ruled(fact: str, observed: str | None, wanted: tuple[str, ...]) -> Verdict:
    if observed is None:
        return Verdict(
            gate=f"in_effect.{fact}",
            outcome="undecided",
            observed="unknown",
            required=" or ".join(wanted),
            advice="neither the log nor the server's configuration states it",
        )
    matches = observed in wanted
    return Verdict(
        gate=f"in_effect.{fact}",
        outcome="pass" if matches else "fail",
        observed=observed,
        required=" or ".join(wanted),
        advice="" if matches else "the server runs something else than the arm asked for",
    )
