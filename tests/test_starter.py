from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from specbench.cli import cli
from specbench.experiment.read import ReadExperiment, read_experiment
from specbench.methods import Method
from specbench.starter import (
    STARTER_STRATA,
    Answers,
    Prompts,
    experiment_text,
    name_of,
    simulated_answers,
    workload_text,
)
from specbench.workloads.read import read_workload
from tests.conftest import ROOT, run_cli

STARTER = Prompts(path="starter.jsonl", strata=STARTER_STRATA, correctness="starter.jsonl")
VLLM = ("--engine", "vllm", "--model", "org/target", "--python", "/venv/bin/python")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder without workloads, as beside an installed wheel."""
    monkeypatch.chdir(tmp_path)


def written(folder: Path, methods: Mapping[str, Method[Any]], answers: Answers) -> ReadExperiment:
    (folder / "starter.jsonl").write_text(workload_text())
    path = folder / "first.yaml"
    path.write_text(experiment_text(answers, STARTER))
    return read_experiment(path, methods)


def asked(words: str, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["init", *arguments], input=words)


def arms(read: ReadExperiment) -> list[str]:
    return [arm.name for arm in read.experiment.arms]


def test_the_simulated_experiment_has_every_method_and_reads_well(
    tmp_path: Path, methods: Mapping[str, Method[Any]]
) -> None:
    read = written(tmp_path, methods, simulated_answers("first"))
    assert arms(read) == ["baseline", "ngram-k3", "draft-k2", "draft-k3", "draft-k5", "eagle-k3"]
    assert read.strata() == ("code", "chat")


def test_without_draft_and_head_their_arms_are_comments(
    tmp_path: Path, methods: Mapping[str, Method[Any]]
) -> None:
    answers = Answers(name="first", engine="vllm", model="org/target", python="/venv/bin/python")
    read = written(tmp_path, methods, answers)
    assert arms(read) == ["baseline", "ngram-k3"]
    assert read.experiment.launcher.python == "/venv/bin/python"
    assert "#   method: draft_model" in read.text
    assert "# - {name: eagle-k3, method: eagle" in read.text


def test_commented_arms_and_flags_read_well_when_they_are_uncommented(
    tmp_path: Path, methods: Mapping[str, Method[Any]]
) -> None:
    answers = Answers(name="first", engine="vllm", model="org/target")
    written(tmp_path, methods, answers)
    path = tmp_path / "first.yaml"
    marks = ("  # - ", "  #   ", "  # max_model_len", "  # flags", "  # env")
    lines = [
        line.replace("# ", "", 1) if line.startswith(marks) else line
        for line in path.read_text().splitlines()
    ]
    path.write_text("\n".join(lines))
    read = read_experiment(path, methods)
    assert arms(read) == ["baseline", "ngram-k3", "draft-k2", "draft-k3", "draft-k5", "eagle-k3"]
    assert read.experiment.target.max_model_len == 8192
    assert read.experiment.target.flags == {"gpu-memory-utilization": 0.85}
    assert read.experiment.target.env == {"HF_HUB_OFFLINE": "1"}


@pytest.mark.parametrize(
    "model", ["null", "0.5", "a: b", "a #b", '"', "{x}", "/m/é ü", "- a", "\\"]
)
def test_any_model_stays_the_text_that_was_given(
    tmp_path: Path, methods: Mapping[str, Method[Any]], model: str
) -> None:
    answers = Answers(name="1", engine="vllm", model=model, draft=model, head=model, python=model)
    read = written(tmp_path, methods, answers)
    assert (read.experiment.name, read.experiment.target.model) == ("1", model)
    assert read.experiment.launcher.python == model
    assert [arm.options.model for arm in read.experiment.arms[2:]] == [model] * 4


def test_every_section_begins_with_what_it_decides() -> None:
    text = experiment_text(simulated_answers("first"), STARTER)
    sections = text.split("\n\n")
    assert len(sections) == 10
    assert all(section.startswith("# ") for section in sections)
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize("strata", [(3, 3), (20,), (1,), (5, 7)])
def test_simulated_requests_are_whole_passes_and_fill_every_load(strata: tuple[int, ...]) -> None:
    prompts = Prompts(path="x.jsonl", strata=strata, correctness="x.jsonl")
    text = experiment_text(simulated_answers("first"), prompts)
    (line,) = [line for line in text.splitlines() if "requests: {" in line]
    low, high = (int(part.split(":")[1].strip(" }")) for part in line.split("{")[1].split(","))
    assert all(count % size == 0 for count in (low, high) for size in strata)
    assert high >= 8


def test_starter_prompts_are_six_of_two_strata(tmp_path: Path) -> None:
    path = tmp_path / "starter.jsonl"
    path.write_text(workload_text())
    strata = [prompt.stratum for prompt in read_workload(path).prompts]
    assert tuple(strata.count(name) for name in dict.fromkeys(strata)) == STARTER_STRATA
    assert len(strata) == 6


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("meta-llama/Llama-3.1-8B", "llama-3.1-8b"),
        ("/models/My Target/", "my-target"),
        ("${MODELS}", "models"),
        ("日本", "first"),
    ],
)
def test_a_name_is_made_from_a_path_or_hub_id(text: str, name: str) -> None:
    assert name_of(text) == name


def test_init_of_the_simulated_engine_asks_nothing_and_is_checked_and_planned() -> None:
    done = asked("", "--engine", "simulated")
    assert done.exit_code == 0, done.output
    assert done.output.splitlines() == [
        "wrote specs/simulated.yaml",
        "wrote specs/starter.jsonl",
        "next:",
        "  specbench doctor specs/simulated.yaml",
        "  specbench run specs/simulated.yaml",
    ]
    assert "6 arms, 6 prompts" in run_cli("check", "--here", "specs/simulated.yaml").output
    facts = json.loads(run_cli("plan", "specs/simulated.yaml", "--json").output)
    assert len(facts["deployments"]) == 14


def test_init_asks_for_what_no_option_gives(methods: Mapping[str, Method[Any]]) -> None:
    done = asked("vllm\norg/target\n/venv/bin/python\norg/draft\n\n2\nmine\n")
    assert done.exit_code == 0, done.output
    read = read_experiment(Path("specs/mine.yaml"), methods)
    assert arms(read) == ["baseline", "ngram-k3", "draft-k2", "draft-k3", "draft-k5"]
    assert read.experiment.target.tensor_parallel == 2


def test_init_asks_again_after_a_wrong_answer() -> None:
    done = asked("vlm\nsimulated\n")
    assert done.exit_code == 0
    assert "'vlm' is not one of" in done.output


def test_init_runs_without_a_terminal_when_options_answer() -> None:
    done = asked("", *VLLM, "--draft", "", "--head", "org/head", "--tensor-parallel", "4", "a.yaml")
    assert done.exit_code == 0, done.output
    assert "tensor_parallel: 4" in Path("a.yaml").read_text()


def test_init_with_yes_takes_the_defaults_and_names_by_the_model() -> None:
    assert asked("", *VLLM, "--yes").exit_code == 0
    assert 'name: "target"' in Path("specs/target.yaml").read_text()


def test_init_says_which_answer_is_missing() -> None:
    done = asked("", *VLLM)
    assert done.exit_code == 2
    assert "give --draft, or --yes" in done.output
    done = asked("", "--engine", "vllm", "--yes")
    assert (done.exit_code, "--model is needed" in done.output) == (2, True)
    assert list(Path().iterdir()) == []


def test_an_empty_answer_is_none_and_an_empty_model_is_refused() -> None:
    empty = ("--engine", "simulated", "--draft", "", "--head", "")
    assert asked("", *empty, "a.yaml").exit_code == 0
    assert "2 arms" in run_cli("check", "a.yaml").output
    assert asked("", *VLLM[:4], "--python", "", "--yes", "b.yaml").exit_code == 0
    assert "python:" not in Path("b.yaml").read_text()
    done = asked("", "--engine", "vllm", "--model", "", "--yes", "c.yaml")
    assert (done.exit_code, "the served model has no name" in done.output) == (2, True)


def test_init_overwrites_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("mine")
    command = [sys.executable, "-m", "specbench", "init", str(path), "--engine", "simulated"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, path.read_text()) == (2, "mine")
    assert f"{path} exists and is not overwritten" in done.stderr
    assert sorted(tmp_path.iterdir()) == [path]


def test_init_keeps_the_prompts_that_are_there() -> None:
    asked("", "a.yaml", "--engine", "simulated")
    own = workload_text().replace("starter-1", "own-1")
    Path("starter.jsonl").write_text(own)
    done = asked("", "b.yaml", "--engine", "simulated")
    assert "starter.jsonl" not in done.output
    assert Path("starter.jsonl").read_text() == own


def test_init_leaves_nothing_when_the_answers_make_no_experiment() -> None:
    done = asked("", *VLLM, "--draft", "org/eagle-draft", "--yes", "a.yaml")
    assert done.exit_code == 2
    assert "by which vLLM runs another method" in done.output
    assert list(Path().iterdir()) == []


def test_init_refuses_a_name_that_is_no_folder_name() -> None:
    done = asked("", "--engine", "simulated", "--name", "My Name")
    assert (done.exit_code, "'My Name' has other letters" in done.output) == (2, True)


def test_init_takes_the_workloads_of_a_checkout(
    tmp_path: Path, methods: Mapping[str, Method[Any]]
) -> None:
    (tmp_path / "workloads").mkdir()
    for name in ("code.jsonl", "correctness.jsonl"):
        text = (ROOT / "workloads" / name).read_text()
        (tmp_path / "workloads" / name).write_text(text)
    assert asked("", "--engine", "simulated").exit_code == 0
    read = read_experiment(Path("specs/simulated.yaml"), methods)
    assert [file.path for file in read.experiment.workloads] == ["../workloads/code.jsonl"]
    assert read.correctness
    assert read.correctness.path.name == "correctness.jsonl"


def test_init_makes_local_paths_absolute_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "python").symlink_to(sys.executable)
    given = ("--engine", "vllm", "--model", "model", "--python", "./python", "--yes", "a.yaml")
    assert asked("", *given).exit_code == 0
    text = Path("a.yaml").read_text()
    assert f'model: "{tmp_path}/model"' in text
    assert f'python: "{tmp_path}/python"' in text


def test_completion_prints_a_script_for_each_shell() -> None:
    for shell in ("bash", "zsh", "fish"):
        assert "_SPECBENCH_COMPLETE" in run_cli("completion", shell).output
    assert run_cli("completion", "tcsh").exit_code == 2


def test_the_completion_script_is_answered() -> None:
    program = "import sys; sys.argv[0] = 'specbench'; from specbench.cli import main; main()"
    asking = {
        "_SPECBENCH_COMPLETE": "bash_complete",
        "COMP_WORDS": "specbench do",
        "COMP_CWORD": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **asking},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "plain,doctor\n"
