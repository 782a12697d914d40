"""Commands for the first minutes: a first experiment, a look at the machine, completion."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from specbench.cli.options import installed_methods, read_spec, runs_option

if TYPE_CHECKING:
    from specbench.doctor.finding import Finding
    from specbench.starter import Answers, Prompts

SPECS = Path("specs")
STARTER = "starter.jsonl"
SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("path", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--engine", help="The server family: vllm or simulated.")
@click.option("--model", help="Path or hub id of the served model.")
@click.option("--python", help="Interpreter that has the engine.")
@click.option("--draft", help="Path or hub id of a draft model; '' for none.")
@click.option("--head", help="Path or hub id of an EAGLE head; '' for none.")
@click.option("--tensor-parallel", type=click.IntRange(min=1), help="GPUs that share each layer.")
@click.option("--name", help="Names the file and the run folder.")
@click.option("--yes", is_flag=True, help="Ask nothing: what is not given gets its default.")
def init(path: Path | None, name: str | None, *, yes: bool, **given: Any) -> None:
    """Write a first, commented experiment to PATH (specs/NAME.yaml when left out).

    Asks for what no option gives. The simulated engine needs nothing else.
    """
    if path is not None:
        _refuse_taken(path)
    answers = _answers(path, name, given, asks=not yes)
    spec = path or SPECS / f"{answers.name}.yaml"
    _refuse_taken(spec)
    for written in _written(spec, answers):
        click.echo(f"wrote {written}")
    shown = shlex.quote(str(spec))
    click.echo(f"next:\n  specbench doctor {shown}\n  specbench run {shown}")


@click.command()
@click.argument("spec", required=False, type=click.Path(path_type=Path))
@runs_option
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def doctor(spec: Path | None, runs: Path, as_json: bool) -> None:
    """Look at what measuring here needs, and at what SPEC needs, with a remedy for each lack.

    Exits 5 when this machine fails, 2 when only SPEC does.
    """
    import attrs

    from specbench.doctor.machine import machine_findings
    from specbench.errors import ExperimentError, MachineError

    concurrency, of_spec = _findings_of(spec)
    of_machine = list(machine_findings(runs, concurrency))
    if as_json:
        parts = {"machine": of_machine, "spec": of_spec}
        value = {part: [attrs.asdict(one) for one in found] for part, found in parts.items()}
        click.echo(json.dumps(value, indent=1))
    else:
        for one in (*of_machine, *of_spec):
            remedy = f"; {one.remedy}" if one.remedy else ""
            click.echo(f"{one.state:<5} {one.name:<13} {one.said}{remedy}")
    for found, error in ((of_machine, MachineError), (of_spec, ExperimentError)):
        if any(one.state == "fail" for one in found):
            sys.exit(error.exit_code)


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which SHELL completes specbench: eval "$(specbench completion bash)"."""
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script
    group = context.find_root().command
    click.echo(script(group, {}, "specbench", "_SPECBENCH_COMPLETE").source())


def _findings_of(spec: Path | None) -> tuple[int | None, list[Finding]]:
    """Give an experiment's highest concurrency and what it finds here."""
    from specbench.doctor.experiment import experiment_findings, refused_findings
    from specbench.errors import ExperimentError
    from specbench.planned_cell import most_streams

    if spec is None:
        return None, []
    installed = installed_methods()
    try:
        read = read_spec(spec, installed)
    except ExperimentError as error:
        return None, list(refused_findings(error))
    methods = {name: loaded.method for name, loaded in installed.items()}
    return most_streams(read), list(experiment_findings(read, methods))


def _refuse_taken(path: Path) -> None:
    if path.exists():
        raise click.UsageError(f"{path} exists and is not overwritten; give another PATH or --name")


def _answers(path: Path | None, name: str | None, given: dict[str, Any], *, asks: bool) -> Answers:
    """Give the answers: from options, then from the person when it `asks`, else the defaults."""
    import attrs

    from specbench import starter
    from specbench.engines.known import ENGINES
    from specbench.observe.provenance import gpus

    def answer(field: str, question: str, default: Any, kind: Any = click.STRING) -> Any:
        option = f"--{field.replace('_', '-')}"
        if given[field] is not None:
            return kind.convert(given[field], None, None)
        if asks:
            return _asked(question, option, default, kind)
        if default is None:
            raise click.UsageError(f"{option} is needed")
        return default

    if given["model"] == "":
        raise click.BadParameter("the served model has no name", param_hint="--model")
    engine = answer("engine", "Engine", "simulated", click.Choice(tuple(ENGINES)))
    stem = starter.name_of(path.stem) if path else None
    if engine == "simulated":
        # An empty answer is none, as for the other engines.
        known: dict[str, Any] = {
            key: value or None for key, value in given.items() if value is not None
        }
        return attrs.evolve(starter.simulated_answers(_named(name or stem or engine)), **known)
    model = _placed(answer("model", "Model served (path or hub id)", None))
    python = answer("python", f"Interpreter that has {engine}", sys.executable)
    draft = answer("draft", "Draft model (path or hub id, empty for none)", "")
    head = answer("head", "EAGLE head (path or hub id, empty for none)", "")
    if asks and (here := gpus()):
        click.echo(f"GPUs here: {', '.join(gpu.name for gpu in here)}")
    parallel = answer("tensor_parallel", "GPUs that share each layer", 1, click.IntRange(min=1))
    if name is None:
        name = stem or starter.name_of(model)
        name = _asked("Name", "--name", name, click.STRING) if asks and path is None else name
    return starter.Answers(
        name=_named(name),
        engine=engine,
        model=model,
        python=_placed(shutil.which(python) or python) or None,
        draft=_placed(draft) or None,
        head=_placed(head) or None,
        tensor_parallel=parallel,
    )


def _asked(question: str, option: str, default: Any, kind: Any) -> Any:
    try:
        return click.prompt(question, default=default, type=kind, show_default=default != "")
    except click.Abort:
        # A terminal's end is a person who gives up. Elsewhere nobody is there to answer.
        if sys.stdin.isatty():
            raise
        raise click.UsageError(f"nobody answers here: give {option}, or --yes") from None


def _named(name: str) -> str:
    from specbench.starter import is_name

    if not is_name(name):
        raise click.BadParameter(f"{name!r} has other letters than a-z, 0-9, '.', '_' and '-'")
    return name


def _placed(text: str) -> str:
    """Give a path as a server needs it, absolute; a hub id or a `${VARIABLE}` as it is."""
    path = Path(text).expanduser()
    # Links stay: the interpreter of a virtual environment is one.
    return str(path.absolute()) if text and path.exists() else text


def _written(spec: Path, answers: Answers) -> list[Path]:
    """Write the experiment, and prompts beside it where it finds none; give what was written."""
    import attrs

    from specbench.errors import ExperimentError
    from specbench.starter import experiment_text, workload_text

    prompts = _prompts(spec.parent)
    written: list[Path] = []
    try:
        spec.parent.mkdir(parents=True, exist_ok=True)
        if prompts.path == STARTER and not (spec.parent / STARTER).exists():
            (spec.parent / STARTER).write_text(workload_text(), encoding="utf-8")
            written.append(spec.parent / STARTER)
        with spec.open("x", encoding="utf-8") as file:
            written.append(spec)
            file.write(experiment_text(answers, prompts))
        read_spec(spec, installed_methods())
    except OSError as error:
        raise click.UsageError(f"cannot write {spec}: {error.strerror}") from error
    except ExperimentError as error:
        # The answers make no experiment, such as a draft whose path renames the method.
        for path in written:
            path.unlink()
        said = "\n".join(str(attrs.evolve(one, where="")) for one in error.problems)
        raise click.UsageError(f"{said}\nnothing was written") from error
    return written[::-1]


def _prompts(folder: Path) -> Prompts:
    """Give the workload that an experiment in a folder names: the checkout's, or the starter's."""
    from specbench.starter import STARTER_STRATA, Prompts
    from specbench.workloads.read import read_workload

    for place in (folder.absolute().parent, folder, Path()):
        code = place / "workloads" / "code.jsonl"
        if code.is_file():
            strata = Counter(prompt.stratum for prompt in read_workload(code).prompts)
            captures = code.with_name("correctness.jsonl")
            return Prompts(
                path=_from(folder, code),
                strata=tuple(strata.values()),
                correctness=_from(folder, captures if captures.is_file() else code),
            )
    return Prompts(path=STARTER, strata=STARTER_STRATA, correctness=STARTER)


def _from(folder: Path, path: Path) -> str:
    return os.path.relpath(path.resolve(), folder.resolve())
