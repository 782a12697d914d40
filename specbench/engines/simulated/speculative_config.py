"""What vLLM's SpeculativeConfig fills in and what it refuses, with its words. Pure.

vllm/config/speculative.py of 0.23.0 and 0.32.0; the texts as captured from refused launches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from specbench.engines.simulated.served import SUFFIX_DEPTH, Version
from specbench.engines.vllm import fields

LOOKUP_DEFAULT = 5
"""vLLM's n-gram when neither bound is given (vllm/config/speculative.py, 0.32)."""
WITHOUT_MODEL = frozenset(("ngram", "ngram_gpu", "suffix"))
"""Methods that load no drafter."""
OF_TARGET = frozenset(("mtp", "dspark"))
"""Methods whose drafter lies in the target's checkpoint unless a model is named."""
_PYDANTIC: dict[Version, str] = {"0.23.0": "2.12", "0.32.0": "2.14"}


def filled(speculation: Mapping[str, Any], *, model: str, tensor_parallel: int) -> dict[str, Any]:
    """Give a speculative configuration with what vLLM fills in where nothing was said.

    vllm/config/speculative.py:__post_init__ of 0.23.0 and 0.32.0. A missing n-gram bound copies the
    other one.
    """
    method = method_of(speculation)
    whole = {**speculation, "method": method}
    if method in WITHOUT_MODEL:
        whole["model"] = method
    elif method in OF_TARGET:
        whole.setdefault("model", model)
    if method == "suffix":
        whole.setdefault("num_speculative_tokens", SUFFIX_DEPTH)
    if method in ("ngram", "ngram_gpu"):
        given = (speculation.get("prompt_lookup_min"), speculation.get("prompt_lookup_max"))
        whole["prompt_lookup_min"], whole["prompt_lookup_max"] = lookup_bounds(*given)
    if method not in WITHOUT_MODEL:
        whole.setdefault("draft_tensor_parallel_size", tensor_parallel)
    return whole


def drafter(speculation: Mapping[str, Any] | None, model: str) -> str | None:
    """Give the checkpoint that drafts for a target, or None where none does."""
    if speculation is None or method_of(speculation) in WITHOUT_MODEL:
        return None
    return str(speculation.get("model") or model)


def method_of(speculation: Mapping[str, Any]) -> str:
    """Give the method; without one vLLM takes a model for a draft model."""
    return str(speculation.get("method") or "draft_model")


def lookup_bounds(shortest: int | None, longest: int | None) -> tuple[int, int]:
    """Give shortest and longest n-gram looked up; the one left out copies the other."""
    return (
        int(shortest or longest or LOOKUP_DEFAULT),
        int(longest or shortest or LOOKUP_DEFAULT),
    )


def refusals(
    version: Version, speculation: Mapping[str, Any], tensor_parallel: int
) -> Iterator[str]:
    """Give what SpeculativeConfig refuses, in its order: fields, then what they say together.

    A real vLLM lists every alias of a method; here stand the methods of that version.
    """
    read = fields.parsed(version)
    assert read is not None
    for name, value in speculation.items():
        if fields.SINCE.get(name, fields.NEWEST) > read or name not in fields.SINCE:
            said = f"Unexpected keyword argument [{_kind('unexpected_keyword_argument', value)}]"
            yield _invalid(version, name, said, "unexpected_keyword_argument")
    method, depth = method_of(speculation), speculation.get("num_speculative_tokens")
    known = [
        name
        for name, (first, ended) in fields.METHODS.items()
        if first <= read and (ended is None or read < ended)
    ]
    if method not in known:
        listed = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"
        said = f"Input should be {listed} [{_kind('literal_error', method)}]"
        yield _invalid(version, "method", said, "literal_error")
    if depth is not None and depth <= 0:
        said = f"Input should be greater than 0 [{_kind('greater_than', depth)}]"
        yield _invalid(version, "num_speculative_tokens", said, "greater_than")
    for said in _mistakes(method, speculation, tensor_parallel):
        yield refused_value(version, "SpeculativeConfig", said)


def _mistakes(method: str, speculation: Mapping[str, Any], tensor_parallel: int) -> Iterator[str]:
    depth = speculation.get("num_speculative_tokens")
    modelled = method not in WITHOUT_MODEL and method not in OF_TARGET
    if modelled and not speculation.get("model"):
        yield "num_speculative_tokens was provided but without speculative model."
    if method in ("ngram", "ngram_gpu"):
        shortest, longest = lookup_bounds(
            speculation.get("prompt_lookup_min"), speculation.get("prompt_lookup_max")
        )
        if shortest > longest:
            yield f"prompt_lookup_min={shortest} must be <= prompt_lookup_max={longest}"
    if depth is None and modelled:
        yield "A speculative model was provided, but `num_speculative_tokens` was not provided"
    if depth is None and method != "suffix":
        yield (
            "num_speculative_tokens must be provided with speculative model unless the draft "
            "model config contains an n_predict parameter."
        )
    draft = speculation.get("draft_tensor_parallel_size")
    if method not in WITHOUT_MODEL and draft not in (None, 1, tensor_parallel):
        yield (
            f"speculative_draft_tensor_parallel_size={draft} cannot be other value than 1 or "
            "target model tensor_parallel_size"
        )
    yield from _synthetic(speculation)


def _synthetic(speculation: Mapping[str, Any]) -> Iterator[str]:
    rates = speculation.get("synthetic_acceptance_rates")
    length = speculation.get("synthetic_acceptance_length")
    given = (rates is not None) + (length is not None)
    if speculation.get("rejection_sample_method") != "synthetic":
        if given:
            yield (
                "synthetic_acceptance_rates / synthetic_acceptance_length are only valid with "
                "rejection_sample_method='synthetic'."
            )
        return
    depth = int(speculation.get("num_speculative_tokens") or 0)
    if given != 1:
        yield (
            "rejection_sample_method='synthetic' requires exactly one of "
            "synthetic_acceptance_rates or synthetic_acceptance_length."
        )
    if rates is not None:
        if len(rates) != depth:
            yield f"synthetic_acceptance_rates must have length {depth}, got {rates}."
        if not all(0 <= rate <= 1 for rate in rates):
            yield f"synthetic_acceptance_rates entries must be in [0, 1], got {rates}."
        if list(rates) != sorted(rates, reverse=True):
            yield f"synthetic_acceptance_rates must be non-increasing, got {rates}."
    if length is not None and not 1 <= length <= depth + 1:
        yield f"synthetic_acceptance_length must be in [1, {depth + 1}], got {length}."


def refused_value(version: Version, config: str, said: str) -> str:
    """Give the end of the error with which a configuration class refuses its values."""
    where = "input_value=ArgsKwargs((), {'method':...}), input_type=ArgsKwargs"
    text = f"  Value error, {said} [type=value_error, {where}]"
    return "\n".join([_heading(config), text, _link(version, "value_error")])


def _invalid(version: Version, field: str, said: str, kind: str) -> str:
    return "\n".join([_heading("SpeculativeConfig"), field, f"  {said}", _link(version, kind)])


def _heading(config: str) -> str:
    return f"pydantic_core._pydantic_core.ValidationError: 1 validation error for {config}"


def _kind(kind: str, value: object) -> str:
    return f"type={kind}, input_value={value!r}, input_type={type(value).__name__}"


def _link(version: Version, kind: str) -> str:
    read = f"https://errors.pydantic.dev/{_PYDANTIC[version]}/v/{kind}"
    return f"    For further information visit {read}"
