"""Commands about prompt files. Heavy imports wait inside."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from specbench.workloads.describe import Description
    from specbench.workloads.overlap import Overlap
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
