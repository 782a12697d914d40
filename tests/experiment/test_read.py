from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from specbench.errors import ExperimentError
from specbench.experiment.read import ReadExperiment, read_experiment, require_here
from specbench.methods import Method
from tests.conftest import ROOT, SMALL, write_small

EXAMPLES = Path(__file__).parent.parent / "examples"
ARMS = ("baseline", "ngram-k3", "eagle-k3")
SPECS = sorted((ROOT / "specs").glob("*.yaml"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_shipped_spec_reads(path: Path, methods: Mapping[str, Method[Any]]) -> None:
    assert read_experiment(path, methods).experiment.arms


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_a_wrong_file_gives_its_message(
    path: Path, tmp_path: Path, methods: Mapping[str, Method[Any]]
) -> None:
    """The first line of the message stands beside each example, in a file of its name."""
    write_small(tmp_path)
    shutil.copy(path, tmp_path / "spec.yaml")
    with pytest.raises(ExperimentError) as caught:
        read_experiment(tmp_path / "spec.yaml", methods)
    first = str(caught.value).splitlines()[0].replace(f"{tmp_path}/", "")
    assert first == path.with_suffix(".txt").read_text().strip()


def test_there_is_a_message_for_every_example() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} == {
        path.stem for path in EXAMPLES.glob("*.txt")
    }
    assert len(list(EXAMPLES.glob("*.yaml"))) >= 20


def test_all_problems_of_a_stage_are_told_at_once(
    tmp_path: Path, methods: Mapping[str, Method[Any]]
) -> None:
    path = write_small(
        tmp_path, SMALL.replace("seed: 5", "sed: 5").replace("blocks: 2", "blocks: 0")
    )
    with pytest.raises(ExperimentError) as caught:
        read_experiment(path, methods)
    assert len(caught.value.problems) == 2
    assert str(caught.value).endswith("2 problems; nothing was run")


def test_a_swept_option_becomes_an_arm_each(read_small: Callable[..., ReadExperiment]) -> None:
    read = read_small(
        SMALL.replace("num_speculative_tokens: [3]", "num_speculative_tokens: [2, 5]")
    )
    assert [arm.name for arm in read.experiment.arms] == [
        "baseline",
        "ngram-k2",
        "ngram-k5",
        "eagle-k3",
    ]
    assert [a.options.num_speculative_tokens for a in read.experiment.arms[1:3]] == [2, 5]


def test_variables_are_put_in_and_an_unset_one_waits_for_here(
    read_small: Callable[..., ReadExperiment], monkeypatch: pytest.MonkeyPatch
) -> None:
    document = SMALL.replace("model: toy,", 'model: "${MY_MODEL}",')
    monkeypatch.setenv("MY_MODEL", "/models/x")
    assert read_small(document).experiment.target.model == "/models/x"
    monkeypatch.delenv("MY_MODEL")
    read = read_small(document)
    assert read.unset == ("MY_MODEL",)
    with pytest.raises(ExperimentError, match="MY_MODEL is not set"):
        require_here(read)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("api_key_env", None, "environment variable REACH is not set; export REACH=..."),
        ("proxy_env", None, "environment variable REACH is not set; export REACH=..."),
        (
            "proxy_env",
            "https://user:hunter22@gate.example:3128",
            "environment variable REACH holds no http://host:port URL of a proxy",
        ),
    ],
)
def test_variables_that_servers_are_reached_with_are_judged_here_at_their_line(
    read_small: Callable[..., ReadExperiment],
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    value: str | None,
    said: str,
) -> None:
    monkeypatch.delenv("REACH", raising=False)
    if value is not None:
        monkeypatch.setenv("REACH", value)
    servers = [f"    {arm}: {{base_url: 'http://h:{place}'" for place, arm in enumerate(ARMS, 1)]
    document = SMALL + "launcher:\n  kind: attach\n  servers:\n" + "}\n".join(servers)
    read = read_small(f"{document}, {key}: REACH}}\n")
    line = len(document.splitlines())
    with pytest.raises(ExperimentError) as caught:
        require_here(read)
    (problem,) = caught.value.problems
    assert f"{read.path}:{line}: launcher.servers.eagle-k3.{key}: {said}" in str(caught.value)
    assert "hunter22" not in str(caught.value)
    assert problem.hint


def test_an_interpreter_that_cannot_be_run_is_refused_here(
    read_small: Callable[..., ReadExperiment],
) -> None:
    read = read_small(SMALL + "launcher: {python: /nowhere/python}\n")
    with pytest.raises(ExperimentError, match="/nowhere/python"):
        require_here(read)


def test_a_workload_digest_is_held(read_small: Callable[..., ReadExperiment]) -> None:
    digest = read_small().workloads[0].sha256
    assert read_small(
        SMALL.replace("{path: small.jsonl}", f"{{path: small.jsonl, sha256: {digest}}}")
    )
    with pytest.raises(ExperimentError, match=f"has digest {digest}, not {'f' * 64}"):
        read_small(
            SMALL.replace("{path: small.jsonl}", f"{{path: small.jsonl, sha256: {'f' * 64}}}")
        )


def test_an_experiments_cap_reaches_every_prompt_and_the_digest(
    read_small: Callable[..., ReadExperiment],
) -> None:
    own = read_small()
    capped = read_small(SMALL.replace("{path: small.jsonl}", "{path: small.jsonl, max_tokens: 5}"))
    assert {prompt.max_tokens for prompt in capped.prompts("mixed")} == {5}
    assert capped.workloads[0].sha256 != own.workloads[0].sha256


def test_a_directory_a_missing_file_and_a_binary_one_are_told_in_words(
    tmp_path: Path, methods: Mapping[str, Method[Any]]
) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    for name, said in (
        (".", "Is a directory"),
        ("no.yaml", "No such file"),
        ("binary.yaml", "no UTF-8 text"),
    ):
        with pytest.raises(ExperimentError, match=said):
            read_experiment(tmp_path / name, methods)


def test_reading_takes_well_under_a_second(methods: Mapping[str, Method[Any]]) -> None:
    started = time.perf_counter()
    read_experiment(ROOT / "specs/quickstart.yaml", methods)
    assert time.perf_counter() - started < 1


def test_strata_and_samplings_that_name_one_cell_twice_are_refused(
    tmp_path: Path, methods: Mapping[str, Method[Any]]
) -> None:
    document = SMALL.replace(
        "\nload:", "\nsampling: [{name: greedy}, {name: greedy-greedy}]\nload:"
    )
    path = write_small(tmp_path, document)
    lines = (tmp_path / "small.jsonl").read_text().splitlines()
    lines[0] = lines[0].replace('"mixed"', '"mixed-greedy"')
    (tmp_path / "small.jsonl").write_text("\n".join(lines))
    with pytest.raises(ExperimentError, match="cells named 'mixed-greedy-greedy'"):
        read_experiment(path, methods)
