"""Other people's prompt files to a workload, and a record of what became of every row."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import attrs

import specbench
from specbench.errors import ExperimentError, Problem
from specbench.experiment.prompt import Message, Prompt, Turn
from specbench.whole_files import write_json
from specbench.workloads import unusable
from specbench.workloads.documents import ESTIMATE, Measure, collected
from specbench.workloads.formats import FORMATS, PROMPT_NAMES, Draft, Foreign, Format, table
from specbench.workloads.read import digest, shortened, workload_lines
from specbench.workloads.sample import stratified
from specbench.workloads.source_rows import SourceRow, is_table, source_digest, source_rows

TurnPolicy = Literal["all", "first", "script"]
DEFAULT_CAP = 512
LONGEST_NAME = 60
TABLE = "table"
DOCUMENTS = "documents"
FORMAT_NAMES = (*(item.name for item in FORMATS), TABLE)


@attrs.frozen(kw_only=True)
class Preparing:
    """How a source becomes a workload."""

    format: str | None = None
    """Recognised by the first row when None."""
    columns: Mapping[str, str] = attrs.field(factory=dict)
    """Which column is the prompt, id, stratum, reference, max_tokens or arrival_s of a table."""
    template: str | None = None
    turns: TurnPolicy = "all"
    """all: every turn, the served answer fed back. first: the first turn alone. script: every turn
    upon the source's own answers."""
    stratum: str | None = None
    sample: int | None = None
    seed: int = 0
    max_tokens: int | None = None
    licence: str = "NOASSERTION"
    tokens: tuple[int, int] = (16_000, 64_000)
    """Least and most tokens of a text made of documents."""
    measure: Measure = ESTIMATE
    tokenizer: str | None = None
    """Digest of the tokenizer behind `measure`; None says that lengths are estimated."""


@attrs.frozen(kw_only=True)
class Prepared:
    """A workload, and what became of the rows of its source."""

    prompts: tuple[Prompt, ...]
    format: str
    template: str
    source: str
    """The source's name, then the start of its digest."""
    source_sha256: str
    rows: int
    bad: tuple[Problem, ...]
    """Rows that are left out, each with its place and why."""
    notes: tuple[str, ...]


def prepare(path: Path, how: Preparing) -> Prepared:
    """Read a source and give its prompts.

    Raises:
        ExperimentError: It cannot be read or recognised, or holds no prompts by its nature.
    """
    source_sha256 = source_digest(path)
    source = f"{path.name}@{source_sha256[:12]}"
    chosen: Format | None = None
    drafts: list[Draft] = []
    bad: list[Problem] = []
    for row in source_rows(path):
        if isinstance(row, Problem):
            bad.append(row)
            continue
        chosen = chosen or _format(path, row, how)
        try:
            drafts.append(_draft(chosen, row))
        except Foreign as error:
            bad.append(Problem(str(error), "", row.where))
    if chosen is None:
        raise ExperimentError(shortened(bad) or [Problem("no row", "", str(path))])
    template = how.template or chosen.template
    if "{prompt}" not in template:
        raise ExperimentError([Problem(f"the template {template!r} has no {{prompt}}")])
    if alike := unusable.all_alike(draft.turns[0].user for draft in drafts):
        raise ExperimentError([Problem(f"{alike}: placeholders are no prompts", "", str(path))])
    rows = len(drafts) + len(bad)
    notes: list[str] = []
    settings = Counter(name for draft in drafts for name in draft.ignored)
    notes += [f"{count} rows set {name}, which is not kept" for name, count in settings.items()]
    if chosen.name == DOCUMENTS:
        drafts, made = _long(drafts, how)
        notes += made
    prompts = _named(_prompts(drafts, how, template, source))
    if how.sample is not None:
        taken = stratified(prompts, how.sample, how.seed)
        notes.append(f"{len(taken)} of {len(prompts)} prompts sampled")
        prompts = taken
    return Prepared(
        prompts=prompts,
        format=chosen.name,
        template=template,
        source=source,
        source_sha256=source_sha256,
        rows=rows,
        bad=tuple(bad),
        notes=tuple(notes),
    )


def write_prepared(prepared: Prepared, how: Preparing, out: Path) -> str:
    """Write a workload and beside it the record of its making, and give the digest.

    Raises:
        ExperimentError: Another file stands there, which no preparation made.
    """
    record = out.with_name(f"{out.name}.prepared.json")
    if out.exists() and not record.exists():
        raise ExperimentError(
            [Problem(f"{out} exists, and no preparation made it", "name another")]
        )
    draft = out.with_name(f".{out.name}.partial")
    with draft.open("w", encoding="utf-8") as file:
        file.writelines(workload_lines(prepared.prompts))
    sha256 = digest(prepared.prompts)
    facts = {
        "sha256": sha256,
        "source": prepared.source,
        "source_sha256": prepared.source_sha256,
        "format": prepared.format,
        "template": prepared.template,
        "turns": how.turns,
        "columns": dict(how.columns),
        "seed": how.seed,
        "sample": how.sample,
        "licence": how.licence,
        "prompts": dict(Counter(prompt.stratum for prompt in prepared.prompts)),
        "left_out": [str(problem) for problem in prepared.bad],
        "notes": prepared.notes,
        "tokenizer": how.tokenizer,
        "specbench": specbench.__version__,
    }
    write_json(record, facts)
    draft.replace(out)
    return sha256


def _format(path: Path, first: SourceRow, how: Preparing) -> Format:
    value = first.value if isinstance(first.value, dict) else {}
    if reason := unusable.length_only(value):
        raise ExperimentError([Problem(reason, "bring prompts, or a trace with text", first.where)])
    tabular = Format(name=TABLE, fits=lambda _: True, read=table(how.columns))
    if how.format is not None:
        return next((item for item in FORMATS if item.name == how.format), tabular)
    if is_table(path) or how.columns:
        return tabular
    found = next((item for item in FORMATS if item.fits(value)), None)
    if found is None and any(isinstance(value.get(name), str) for name in PROMPT_NAMES):
        return tabular
    if found is None:
        said = f"no known format has a row with {', '.join(map(str, value)) or 'no fields'}"
        hint = f"name it with --format: {', '.join(FORMAT_NAMES)}"
        raise ExperimentError([Problem(said, hint, first.where)])
    return found


def _draft(chosen: Format, row: SourceRow) -> Draft:
    if not isinstance(row.value, dict):
        raise Foreign("the row is no object")
    if reason := unusable.length_only(row.value):
        raise Foreign(reason)
    draft = chosen.read(row.value)
    for turn in draft.turns:
        if reason := unusable.placeholder(turn.user):
            raise Foreign(reason)
    return draft if draft.row_id is not None else attrs.evolve(draft, row_id=str(row.place))


def _long(drafts: Sequence[Draft], how: Preparing) -> tuple[list[Draft], list[str]]:
    """Give the texts of wanted length that documents make, and what was done for it."""
    least, most = how.tokens
    named = ((str(place), draft.turns[0].user) for place, draft in enumerate(drafts))
    found: list[Draft] = []
    measured = "tokens" if how.tokenizer else "tokens, estimated at 4 characters each"
    notes = [f"texts of {least} to {most} {measured}"]
    for text in collected(named, least, most, how.measure):
        parts = [drafts[int(place)] for place in text.ids]
        names = [str(draft.row_id) for draft in parts]
        if text.tokens < least and not text.cut:
            notes.append(f"left out, under {least} tokens together: {', '.join(names)}")
            continue
        if len(names) > 1:
            notes.append(f"{names[0]}: joined with {', '.join(names[1:])}")
        if text.cut:
            notes.append(f"{names[0]}: cut to {text.tokens} tokens")
        turns = (Turn(user=text.text),)
        found.append(attrs.evolve(parts[0], row_id="+".join(names), turns=turns))
    return found, notes


def _prompts(
    drafts: Sequence[Draft], how: Preparing, template: str, source: str
) -> Iterator[Prompt]:
    for draft in drafts:
        first = draft.turns[0]
        said = first.user if template == "{prompt}" else template.replace("{prompt}", first.user)
        opened = attrs.evolve(first, user=said)
        turns = (opened, *draft.turns[1:])
        if how.turns != "script":
            turns = tuple(attrs.evolve(turn, assistant=None) for turn in turns)
        talk = how.turns != "first" and len(turns) > 1
        single = (*draft.messages, Message(role="user", content=opened.user))
        yield Prompt(
            id=_slug(draft.row_id or "", draft.category or ""),
            stratum=_slug(how.stratum or draft.category or "", "prompts"),
            messages=draft.messages if talk else single,
            turns=turns if talk else (),
            max_tokens=how.max_tokens or draft.max_tokens or DEFAULT_CAP,
            source=f"{source}#{draft.row_id}",
            licence=draft.licence or how.licence,
            arrival_s=draft.arrival_s,
            reference=draft.reference,
        )


def _named(prompts: Iterator[Prompt]) -> tuple[Prompt, ...]:
    """Give every prompt an id of its own: a second one of the same id gets a number."""
    seen: Counter[str] = Counter()
    named: list[Prompt] = []
    for prompt in prompts:
        name = prompt.id
        while seen[name]:
            seen[prompt.id] += 1
            name = f"{prompt.id[: LONGEST_NAME - 6]}-{seen[prompt.id]}"
        seen[name] += 1
        named.append(prompt if name == prompt.id else attrs.evolve(prompt, id=name))
    return tuple(named)


def _slug(text: str, before: str) -> str:
    """Give a name of a-z, 0-9, '_', '-' and '.'; a bare number gets a word before it."""
    slug = re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip(".-")
    if not slug or slug.isdigit():
        word = re.sub(r"[^a-z0-9._-]+", "-", before.lower()).strip(".-") or "row"
        slug = f"{word}-{slug}".strip("-")
    if len(slug) <= LONGEST_NAME:
        return slug
    return f"{slug[: LONGEST_NAME - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
