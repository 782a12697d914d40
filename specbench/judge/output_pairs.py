"""Two captures side by side, prompt by prompt: how far apart, and where they part. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from specbench.capture_facts import KEPT_NATS, TOP_LOGPROBS, Capture, CapturedOutput
from specbench.judge.text_distance import common_prefix, edit_distance

AROUND = 40
"""Characters of text that are shown on either side of a divergence."""


@attrs.frozen(kw_only=True)
class Divergence:
    """Where an output first leaves the one that it is compared with."""

    prompt_id: str
    token: int | None
    """Tokens that are the same before it; None where the servers told no token ids."""
    character: int
    """Characters that are the same before it."""
    behind_nats: float | None
    """By how much the other token lies behind the likeliest of the reference; None: beyond the
    tokens that it lists, or it lists none."""
    beyond_nats: float | None
    """Where the token is not listed: it lies at least this far behind. None: nothing is known."""
    before: str
    reference: str
    """How the reference goes on."""
    other: str
    """How the other goes on."""

    def is_near_tie(self, near_tie_nats: float) -> bool | None:
        """Tell whether the other token was nearly as likely; None where nobody can tell."""
        if self.behind_nats is not None:
            return self.behind_nats <= near_tie_nats
        if self.beyond_nats is not None and self.beyond_nats >= near_tie_nats:
            return False
        return None


@attrs.frozen(kw_only=True)
class ComparedOutput:
    """Two outputs on one prompt."""

    prompt_id: str
    succeeded: bool
    """Both did. Otherwise nothing else counts."""
    exact: bool
    """The texts are equal."""
    prefix_characters: int
    prefix_fraction: float
    """Common prefix / the shorter text; 1 where the texts are equal, 0 where just one is empty."""
    edit_distance: float
    """Levenshtein's distance of characters / the longer text."""
    tokens: int | None
    """Difference in completion tokens; None where a server told none."""
    divergence: Divergence | None


@attrs.frozen(kw_only=True)
class Worst:
    """The worst of each measure over outputs."""

    prefix_fraction: float = 1.0
    edit_distance: float = 0.0
    tokens: int = 0


@attrs.frozen(kw_only=True)
class OutputPair:
    """Two captures of the same prompts."""

    reference: Capture
    other: Capture
    outputs: tuple[ComparedOutput, ...]

    @property
    def name(self) -> str:
        """Both captures."""
        return f"{self.reference.name} and {self.other.name}"

    @property
    def exact(self) -> int:
        """Prompts with equal texts."""
        return sum(output.exact for output in self.outputs)

    @property
    def whole(self) -> bool:
        """Whether every prompt succeeded on both sides."""
        return bool(self.outputs) and all(output.succeeded for output in self.outputs)

    @property
    def worst(self) -> Worst:
        """The worst over all its prompts that succeeded."""
        return worst([self])

    @property
    def divergences(self) -> tuple[Divergence, ...]:
        """Where its outputs part."""
        return tuple(output.divergence for output in self.outputs if output.divergence)


def compare(reference: Capture, other: Capture) -> OutputPair:
    """Compare two captures on the prompts of the first. A prompt that the other lacks failed."""
    there = {output.prompt_id: output for output in other.outputs}
    return OutputPair(
        reference=reference,
        other=other,
        outputs=tuple(
            compare_outputs(output, there.get(output.prompt_id)) for output in reference.outputs
        ),
    )


def compare_outputs(reference: CapturedOutput, other: CapturedOutput | None) -> ComparedOutput:
    """Compare two outputs on one prompt."""
    if (
        other is None
        or "ok" not in (reference.status, other.status)
        or (reference.status != other.status)
    ):
        return ComparedOutput(
            prompt_id=reference.prompt_id,
            succeeded=False,
            exact=False,
            prefix_characters=0,
            prefix_fraction=0.0,
            edit_distance=1.0,
            tokens=None,
            divergence=None,
        )
    ours, theirs = reference.text, other.text
    prefix, shorter = common_prefix(ours, theirs), min(len(ours), len(theirs))
    counts = (reference.completion_tokens, other.completion_tokens)
    return ComparedOutput(
        prompt_id=reference.prompt_id,
        succeeded=True,
        exact=ours == theirs,
        prefix_characters=prefix,
        prefix_fraction=prefix / shorter if shorter else float(ours == theirs),
        edit_distance=edit_distance(ours, theirs) / (max(len(ours), len(theirs)) or 1),
        tokens=None if None in counts else abs(counts[0] - counts[1]),  # type: ignore[operator]
        divergence=_divergence(reference, other, prefix),
    )


def worst(pairs: Iterable[OutputPair]) -> Worst:
    """Give the worst of each measure over every output of several pairs."""
    found = [output for pair in pairs for output in pair.outputs if output.succeeded]
    return Worst(
        prefix_fraction=min((output.prefix_fraction for output in found), default=1.0),
        edit_distance=max((output.edit_distance for output in found), default=0.0),
        tokens=max((output.tokens or 0 for output in found), default=0),
    )


def _divergence(
    reference: CapturedOutput, other: CapturedOutput, character: int
) -> Divergence | None:
    """Give where the outputs part: by token ids where there are any, else by text."""
    ours, theirs = reference.token_ids, other.token_ids
    token = None
    behind = beyond = None
    if ours is not None and theirs is not None:
        if ours == theirs:
            return None
        pairs = zip(ours, theirs, strict=False)
        shorter = min(len(ours), len(theirs))
        token = next((place for place, (a, b) in enumerate(pairs) if a != b), shorter)
        if token < len(theirs):
            behind, beyond = _nats(reference, token, theirs[token])
    elif reference.text == other.text:
        return None
    return Divergence(
        prompt_id=reference.prompt_id,
        token=token,
        character=character,
        behind_nats=behind,
        beyond_nats=beyond,
        before=reference.text[max(0, character - AROUND) : character],
        reference=reference.text[character : character + AROUND],
        other=other.text[character : character + AROUND],
    )


def _nats(reference: CapturedOutput, place: int, said: int) -> tuple[float | None, float | None]:
    """Give how far a token lies behind the reference's best, or at least how far."""
    listed = reference.candidates or ()
    if len(listed) != len(reference.token_ids or ()) or place >= len(listed):
        return None, None
    found = dict(listed[place])
    if said in found:
        return found[said], None
    if not found:
        return None, None
    # A short list ends where tokens were too far behind to keep.
    return None, max(found.values()) if len(found) >= TOP_LOGPROBS else KEPT_NATS
