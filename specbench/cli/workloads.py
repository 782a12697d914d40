"""Commands about prompt files. Heavy imports wait inside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from specbench.workloads.describe import Description
    from specbench.workloads.overlap import Overlap
    from specbench.workloads.prepare import TurnPolicy
    from specbench.workloads.prompt_tokens import Encode

SHOWN_IDS = 10


@click.group()
def workload() -> None:
    """Prompt files."""


@workload.command()
@click.argument("file", type=click.Path(path_type=Path))
def validate(file: Path) -> None:
    """Check every line of FILE and print its digest."""
    from collections import Counter

    from specbench.workloads.read import read_workload

    content = read_workload(file)
    for stratum, count in Counter(prompt.stratum for prompt in content.prompts).items():
        click.echo(f"{stratum:<20} {count} prompts")
    click.echo(f"sha256 {content.sha256}")


@workload.command("prepare")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), required=True, help="The workload to write."
)
@click.option("--format", "name", help="Instead of recognising it by the first row.")
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="ROLE=NAME",
    help="Column that is prompt, id, stratum, reference, max_tokens or arrival_s.",
)
@click.option("--template", help="What a request says around {prompt}.")
@click.option(
    "--turns",
    type=click.Choice(["all", "first", "script"]),
    default="all",
    show_default=True,
    help="all: served answers are fed back. script: the file's own answers are.",
)
@click.option("--stratum", help="One stratum for all, instead of the rows' categories.")
@click.option("--sample", type=click.IntRange(min=1), help="Prompts of each stratum to keep.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the sample.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="Cap, instead of the rows' or 512.")
@click.option("--licence", default="NOASSERTION", show_default=True, help="SPDX, of the text.")
@click.option(
    "--tokens",
    default="16000:64000",
    show_default=True,
    metavar="LEAST:MOST",
    help="Length of texts that documents make.",
)
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path),
    help="Measures those texts; 4 characters a token are taken without it.",
)
@click.option("--skip-bad", is_flag=True, help="Leave rows out that are none, and list them.")
def prepare_command(
    file: Path,
    out: Path,
    name: str | None,
    columns: tuple[str, ...],
    template: str | None,
    turns: TurnPolicy,
    stratum: str | None,
    sample: int | None,
    seed: int,
    max_tokens: int | None,
    licence: str,
    tokens: str,
    tokenizer: Path | None,
    skip_bad: bool,
) -> None:
    """Make a workload of FILE, and say what became of its rows.

    FILE is a question.jsonl, HumanEval, ShareGPT, OpenAI-style or vLLM-custom jsonl, a csv or
    parquet table, or documents (jsonl, or a folder of texts). What became of the rows
    is written beside it, into OUT.prepared.json.
    """
    from specbench.errors import ExperimentError, Problem
    from specbench.whole_files import file_digest
    from specbench.workloads.documents import ESTIMATE, measure
    from specbench.workloads.prepare import FORMAT_NAMES, Preparing, prepare, write_prepared
    from specbench.workloads.prompt_tokens import load_tokenizer, tokenizer_file
    from specbench.workloads.read import shortened

    if name is not None and name not in FORMAT_NAMES:
        raise click.BadParameter(f"{name!r} is none of {', '.join(FORMAT_NAMES)}")
    how = Preparing(
        format=name,
        columns=_columns(columns),
        template=template,
        turns=turns,
        stratum=stratum,
        sample=sample,
        seed=seed,
        max_tokens=max_tokens,
        licence=licence,
        tokens=_range(tokens),
        measure=measure(load_tokenizer(tokenizer)) if tokenizer else ESTIMATE,
        tokenizer=file_digest(tokenizer_file(tokenizer)) if tokenizer else None,
    )
    prepared = prepare(file, how)
    if prepared.bad and not skip_bad:
        hint = Problem("mend these rows, or leave them out with --skip-bad")
        raise ExperimentError([*shortened(list(prepared.bad)), hint])
    for problem in shortened(list(prepared.bad)):
        click.echo(f"left out: {problem}", err=True)
    if not prepared.prompts:
        raise ExperimentError([Problem("no prompt is left", "; ".join(prepared.notes), str(file))])
    sha256 = write_prepared(prepared, how, out)
    click.echo(f"{prepared.format}: {len(prepared.prompts)} prompts from {prepared.rows} rows")
    for note in prepared.notes:
        click.echo(f"  {note}")
    click.echo(f"sha256 {sha256}")


COLUMN_ROLES = ("prompt", "id", "stratum", "reference", "max_tokens", "arrival_s")


def _columns(written: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for item in written:
        role, equals, name = item.partition("=")
        if role not in COLUMN_ROLES or not equals or not name:
            raise click.BadParameter(
                f"{item!r}: write ROLE=NAME, ROLE of {', '.join(COLUMN_ROLES)}"
            )
        found[role] = name
    return found


def _range(written: str) -> tuple[int, int]:
    least, _, most = written.partition(":")
    if not (least.isdigit() and most.isdigit() and 0 < int(least) <= int(most)):
        raise click.BadParameter(f"{written!r}: write LEAST:MOST, such as 16000:64000")
    return int(least), int(most)


@workload.command("describe")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--tokenizer",
    type=click.Path(path_type=Path),
    help="The target's tokenizer.json, or its folder (needs the extra `tokens`).",
)
@click.option("--server", metavar="URL", help="A running server that tokenizes instead.")
@click.option(
    "--training",
    type=click.Path(path_type=Path),
    help="A training set of the drafter, to look for prompts in.",
)
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def describe_command(
    file: Path, tokenizer: Path | None, server: str | None, training: Path | None, as_json: bool
) -> None:
    """Show lengths, duplicates, shared beginnings and overlap of the prompts of FILE.

    Lengths are of first requests: in tokens with --tokenizer (without the chat template's own) or
    --server (with them), else in words.
    """
    import attrs

    from specbench.workloads.describe import describe
    from specbench.workloads.overlap import overlap
    from specbench.workloads.read import read_workload

    if tokenizer and server:
        raise click.UsageError("name --tokenizer or --server, not both")
    content = read_workload(file)
    found = describe(content.prompts, _encode(tokenizer, server))
    seen = overlap(content.prompts, training) if training else None
    if as_json:
        facts = {"sha256": content.sha256, **attrs.asdict(found)}
        facts |= {"overlap": attrs.asdict(seen)} if seen else {}
        click.echo(json.dumps(facts, indent=1))
        return
    for line in _lines(found, seen):
        click.echo(line)
    click.echo(f"sha256 {content.sha256}")


def _encode(tokenizer: Path | None, server: str | None) -> Encode | None:
    if tokenizer is not None:
        from specbench.workloads.prompt_tokens import encoder, load_tokenizer

        return encoder(load_tokenizer(tokenizer))
    if server is not None:
        from functools import partial

        from specbench.observe.tokenizing import server_tokens

        return partial(server_tokens, server)
    return None


def _lines(found: Description, seen: Overlap | None) -> list[str]:
    heading = f"{'stratum':<20} {'prompts':>8} {'requests':>8}"
    heading += "".join(f" {name:>8}" for name in ("min", "median", "p95", "max"))
    lines = [f"{heading}  {found.unit}; output cap: median, max"]
    for item in found.strata:
        lengths, caps = item.lengths, item.max_tokens
        lines.append(
            f"{item.stratum:<20} {item.prompts:>8} {item.turns:>8} {lengths.least:>8}"
            f" {lengths.median:>8g} {lengths.p95:>8.4g} {lengths.most:>8}"
            f"  {caps.median:g}, {caps.most}"
        )
    for item in found.strata:
        if item.reuse_cell is not None and item.reuse_warm is not None:
            lines.append(
                f"{item.stratum}: expected prefix hits of prompt tokens {item.reuse_cell:.1%} "
                f"(prefix_cache: cell), {item.reuse_warm:.1%} (warm), in blocks of 16 tokens"
            )
        else:
            lines.append(f"{item.stratum}: expected prefix hits unknown without tokens")
    lines.append(f"duplicates: {len(found.duplicates)}")
    lines += [f"  the same: {_shown(ids)}" for ids in found.duplicates[:SHOWN_IDS]]
    if seen is not None:
        lines.append(f"in the training set: {_shown(seen.same)}")
        lines.append(f"share a piece of 13 words with it: {_shown(seen.shared)}")
    lines.append(f"licences: {', '.join(found.licences)}")
    return lines


def _shown(ids: tuple[str, ...]) -> str:
    more = f" and {len(ids) - SHOWN_IDS} more" if len(ids) > SHOWN_IDS else ""
    return f"{len(ids)}: {', '.join(ids[:SHOWN_IDS])}{more}" if ids else "none"
