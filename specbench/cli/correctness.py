"""Commands of the correctness gate: on files, on a running server, on the captures of a run."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specbench.cli.inspecting import json_option
from specbench.cli.options import runs_option

if TYPE_CHECKING:
    from specbench.capture_facts import Capture
    from specbench.judge.correctness import ArmVerdict

GATE_FAILED = 7
file_argument = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.group()
def correctness() -> None:
    """Whether speculation changes what is said: capture, compare, judge."""


@correctness.command()
@click.argument("url")
@click.option("--workload", type=file_argument, required=True, help="Prompts, JSON Lines.")
@click.option(
    "--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="A new file."
)
@click.option(
    "--concurrency",
    type=click.IntRange(min=1),
    multiple=True,
    default=(1,),
    show_default=True,
    help="Requests in flight; may be given several times.",
)
@click.option("--seed", default=1, show_default=True, help="Another seed is another order.")
@click.option("--model", help="What the server calls it; its first one when left out.")
@click.option("--api-key-env", help="Environment variable that holds the server's key.")
@click.option("--proxy-env", help="Environment variable that names the HTTP proxy to it.")
def capture(
    url: str,
    workload: Path,
    out: Path,
    concurrency: tuple[int, ...],
    seed: int,
    model: str | None,
    api_key_env: str | None,
    proxy_env: str | None,
) -> None:
    """Capture the greedy outputs of the server at URL, such as http://127.0.0.1:8000.

    Captures that are compared with each other need the same prompts, concurrency and seed.
    """
    import os

    import anyio

    from specbench.capture_files import capture_text
    from specbench.experiment.model import AttachedServer
    from specbench.launchers.attach import attached_secrets
    from specbench.proxy import Proxy
    from specbench.redaction import redaction
    from specbench.whole_files import write_text
    from specbench.workloads.read import read_workload

    if out.exists():
        raise click.BadParameter(f"{out} is there already; captures are kept", param_hint="--out")
    for name, option in ((api_key_env, "--api-key-env"), (proxy_env, "--proxy-env")):
        if name is not None and name not in os.environ:
            raise click.BadParameter(f"{name} is not set", param_hint=option)
    if proxy_env is not None:
        try:
            Proxy.of(os.environ[proxy_env])
        except ValueError as error:
            said = f"{proxy_env} holds {error}"
            raise click.BadParameter(said, param_hint="--proxy-env") from None
    prompts = read_workload(workload).prompts
    if any(prompt.turns for prompt in prompts):
        raise click.BadParameter(
            "captures compare single answers: no turns", param_hint="--workload"
        )
    server = AttachedServer(base_url=url, model=model, api_key_env=api_key_env, proxy_env=proxy_env)
    windows = anyio.run(_capture, server, prompts, concurrency, seed)
    clean = redaction([], [], attached_secrets(server)).text
    write_text(out, clean(capture_text(windows)))
    rows = [row for window in windows for row in window.rows]
    succeeded = sum(row.status == "ok" for row in rows)
    click.echo(f"{out}: {succeeded} of {len(rows)} outputs")
    for said in dict.fromkeys(row.error for row in rows if row.error):
        click.echo(f"  failed: {clean(said)}", err=True)
    if any(
        output.candidates is None
        for window in windows
        for row, output in zip(window.rows, window.outputs, strict=True)
        if row.status == "ok"
    ):
        click.echo(
            "note: the server tells no log-probabilities by token id: as a baseline this capture "
            "can explain no near tie",
            err=True,
        )


async def _capture(
    asked: Any, prompts: Sequence[Any], concurrency: tuple[int, ...], seed: int
) -> list[Any]:
    import uuid
    from urllib.parse import urlsplit

    from specbench.capture_facts import TOP_LOGPROBS
    from specbench.capturing import captured
    from specbench.engines.contract import Engine
    from specbench.experiment.load import Timeouts
    from specbench.experiment.model import Sampling
    from specbench.launchers.attach import attached
    from specbench.traffic.requests import Wording

    async with attached(asked, Path(), Engine.metrics_path) as server:
        wording = Wording(
            host=urlsplit(server.base_url).netloc,
            path=server.request_target(Engine.chat_path),
            model=server.model,
            headers=server.request_headers(),
            sampling=Sampling(name="greedy"),
            # No capture finds the prompts of an earlier one in the prefix cache.
            salt=f"capture-{uuid.uuid4().hex[:12]}",
            top_logprobs=TOP_LOGPROBS,
        )
        return await captured(
            prompts,
            wording,
            server.base_url,
            Timeouts(),
            proxy=server.proxy,
            concurrency=concurrency,
            seed=seed,
        )


@correctness.command()
@click.argument("reference", type=file_argument)
@click.argument("other", type=file_argument)
@json_option
def compare(reference: Path, other: Path, as_json: bool) -> None:
    """Compare two capture files prompt by prompt, at each concurrency that both hold."""
    import attrs

    from specbench.cli.correctness_text import pair_lines
    from specbench.judge.output_pairs import compare as compared

    found = [
        compared(ours, theirs)
        for ours in _read(reference, "reference")
        for theirs in _read(other, "other")
        if ours.concurrency == theirs.concurrency
    ]
    if not found:
        raise click.UsageError("the files hold no common concurrency")
    if as_json:
        told = [
            {
                "concurrency": pair.reference.concurrency,
                "exact": pair.exact,
                "worst": attrs.asdict(pair.worst),
                "outputs": [attrs.asdict(output) for output in pair.outputs],
            }
            for pair in found
        ]
        click.echo(json.dumps(told, indent=1))
        return
    click.echo("\n".join(line for pair in found for line in pair_lines(pair)))


@correctness.command()
@click.argument("place", metavar="RUN|BASELINE", type=click.Path(path_type=Path))
@click.argument("arms", metavar="[ARM]...", nargs=-1, type=file_argument)
@click.option(
    "--control",
    "controls",
    type=file_argument,
    multiple=True,
    help="Capture of the baseline launched again; may be given several times.",
)
@click.option("--prefix-margin", type=click.FloatRange(0, 1), help="Of the common prefix.")
@click.option("--edit-margin", type=click.FloatRange(0, 1), help="Of the edit distance.")
@click.option("--token-margin", type=click.IntRange(0), help="Of the completion tokens.")
@click.option("--near-tie-nats", type=click.FloatRange(0, 5, min_open=True), help="Of a near tie.")
@runs_option
@json_option
def gate(
    place: Path,
    arms: tuple[Path, ...],
    controls: tuple[Path, ...],
    prefix_margin: float | None,
    edit_margin: float | None,
    token_margin: int | None,
    near_tie_nats: float | None,
    runs: Path,
    as_json: bool,
) -> None:
    """Judge a run's captures, or capture files: BASELINE ARM... --control FILE.

    Each ARM file is one of the same arm, captured with the prompts and seed of BASELINE. Exits with
    7 unless every verdict is a pass or an explained one.
    """
    from specbench.cli.correctness_text import verdict_facts, verdict_lines

    asked = {
        "prefix_fraction": prefix_margin,
        "edit_distance": edit_margin,
        "tokens": token_margin,
    }
    changed = {name: value for name, value in asked.items() if value is not None}
    if arms:
        found = _of_files(place, arms, controls, changed, near_tie_nats)
    elif controls or changed or near_tie_nats is not None:
        raise click.UsageError("a run declares its own rules: give capture files, or the run alone")
    else:
        found = _of_run(runs, place)
    if not found:
        raise click.UsageError("no captures of an arm and of its baseline at one concurrency")
    if as_json:
        click.echo(json.dumps([verdict_facts(verdict) for verdict in found], indent=1))
    else:
        click.echo("\n".join(line for verdict in found for line in verdict_lines(verdict)))
    if any(verdict.verdict not in ("pass", "pass-explained") for verdict in found):
        sys.exit(GATE_FAILED)


@correctness.command()
@click.argument("run")
@click.argument("arm")
@click.argument("text")
@click.option("--concurrency", type=click.IntRange(min=1), help="Of this one only.")
@runs_option
def explain(run: str, arm: str, text: str, concurrency: int | None, runs: Path) -> None:
    """Record in RUN why ARM is not passed. It is shown with the verdict and changes none."""
    from specbench.explanations import record
    from specbench.inspection.places import find_run
    from specbench.whole_files import read_json

    folder = find_run(runs, run)
    known = [name for name, of in read_json(folder.path / "plan.json")["arms"].items() if of]
    if arm not in known:
        raise click.BadParameter(f"{arm!r} is no arm of the run: {', '.join(known)}")
    if not text.strip():
        raise click.BadParameter("an explanation needs words")
    record(folder, arm, concurrency, text)
    click.echo(f"recorded in {folder.path}; `specbench ingest` brings it into the index")


def _read(path: Path, label: str, **more: Any) -> tuple[Capture, ...]:
    from specbench.capture_facts import Capture
    from specbench.capture_files import read_captures

    return read_captures(path, Capture(arm=label, deployment=str(path), **more))


def _of_files(
    baseline: Path,
    arms: Sequence[Path],
    controls: Sequence[Path],
    margins: dict[str, Any],
    near_tie_nats: float | None,
) -> Sequence[ArmVerdict]:
    """Judge files: in one block the baseline's, its repeats' and the arm's."""
    from specbench.experiment.model import Correctness, Margins
    from specbench.judge.correctness import rule

    default = Correctness(workload="").near_tie_nats
    captures = [
        *_read(baseline, "baseline", role="baseline"),
        *(c for path in controls for c in _read(path, "baseline", role="noise_floor")),
        *(c for path in arms for c in _read(path, "arm")),
    ]
    nats = default if near_tie_nats is None else near_tie_nats
    return rule(captures, Margins(**margins), nats)


def _of_run(runs: Path, place: Path) -> Sequence[ArmVerdict]:
    from specbench.inspection.places import find_run
    from specbench.store.correctness_rows import correctness_verdicts
    from specbench.store.judged_run import JudgedRun, judged_deployments

    run = JudgedRun.of(find_run(runs, str(place)))
    return correctness_verdicts(run, list(judged_deployments(run)))
