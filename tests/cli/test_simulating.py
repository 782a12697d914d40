from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import SMALL, run_cli, write_small

TITLES = (
    "SIMULATED: one deployment of each arm",
    "SIMULATED: expected time of all blocks",
    "SIMULATED: smallest gain shown with a chance of 80%, if equal deployments spread by 2.0%",
)


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    return write_small(tmp_path, SMALL.replace("blocks: 2", "blocks: 5"))


def test_every_table_is_marked(spec: Path) -> None:
    result = run_cli("simulate", spec)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "SIMULATED small: Does the walk work?"
    heads = [line for line in lines if line.startswith("SIMULATED: ")]
    assert [head.startswith(title) for head, title in zip(heads, TITLES, strict=True)] == [True] * 3


def test_cells_stand_as_people_wrote_them_under_each_arm(spec: Path) -> None:
    lines = run_cli("simulate", spec).output.splitlines()
    head = lines.index(TITLES[0]) + 1
    assert lines[head].split()[:4] == ["arm", "stratum", "sampling", "load"]
    rows = [line.split()[:5] for line in lines[head + 1 : head + 7]]
    arms = ("baseline", "ngram-k3", "eagle-k3")
    assert rows == [
        [arm, "mixed", "greedy", *load] for arm in arms for load in (("c=1", "6"), ("c=4", "12"))
    ]


def test_the_designs_own_blocks_are_shown_as_such(spec: Path) -> None:
    """sd 2.83% over 5 blocks; 80% lie above t(4) = 2.776 at noncentrality 3.76, above 3.495 at 4.58."""
    lines = run_cli("simulate", spec).output.splitlines()
    (own,) = (line for line in lines if "(this design)" in line)
    assert own.split() == ["5", "(this", "design)", "+4.9%", "+6.0%"]


def test_json_is_marked_and_holds_what_the_tables_show(spec: Path) -> None:
    result = run_cli("simulate", spec, "--json", "--noise", "0.01", "--power", "0.9")
    told = json.loads(result.output)
    assert told["mark"] == "SIMULATED"
    assert told["preset"]["name"] == "h200-6b"
    assert [arm["name"] for arm in told["arms"]] == ["baseline", "ngram-k3", "eagle-k3"]
    cell = told["arms"][1]["cells"][0]
    assert (cell["stratum"], cell["sampling"]) == ("mixed", "greedy")
    plain = next(c for c in told["arms"][0]["cells"] if c["concurrency"] == cell["concurrency"])
    assert cell["ratio"] == cell["output_throughput"] / plain["output_throughput"]
    expected = told["expected"]
    parts = ("launches_s", "captures_s", "warm_up_s", "windows_s")
    assert expected["wall_s"] == pytest.approx(sum(expected[part] for part in parts))
    assert told["detectable"]["noise"] == 0.01
    assert told["detectable"]["effects"][1]["blocks"] == 5


def test_an_arm_that_is_not_played_is_told_with_its_reason(tmp_path: Path) -> None:
    draft = "{name: d, method: draft_model, model: d, draft_tensor_parallel: 2, num_speculative_tokens: 3}"
    spec = write_small(tmp_path, SMALL.replace("arms:\n", f"arms:\n  - {draft}\n"))
    assert (
        "note: arm 'd' is not played: draft_tensor_parallel 2" in run_cli("simulate", spec).output
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--noise", "0"), "--noise"),
        (("--power", "1"), "--power"),
    ],
)
def test_what_has_no_answer_is_refused_by_name(
    spec: Path, options: tuple[str, str], said: str
) -> None:
    result = run_cli("simulate", spec, *options)
    assert result.exit_code == 2
    assert said in result.output


def test_gpu_hours_are_those_of_the_gpus_that_the_target_asks_for(tmp_path: Path) -> None:
    real = SMALL.replace(
        "simulated, model: toy, flags: {speed: 20, seed: 3}", "vllm, model: '${NO_SUCH}'"
    )
    wide = real.replace("NO_SUCH}'", "NO_SUCH}', tensor_parallel: 4")
    said = run_cli("simulate", write_small(tmp_path, wide), "--preset", "gh200x4-70b").output
    assert "note: NO_SUCH is not set here" in said
    # Two blocks of baseline (600 s), n-gram (780 s) and an EAGLE head are over an hour.
    (line,) = (line for line in said.splitlines() if line.startswith("GPU hours of 4 GPUs"))
    assert float(line.split()[-1]) > 4
    assert "GPU hours of 1 GPU " in run_cli("simulate", write_small(tmp_path, real)).output


def test_a_baseline_alone_has_nothing_to_compare(tmp_path: Path) -> None:
    arms = [line for line in SMALL.splitlines(keepends=True) if "num_speculative" not in line]
    result = run_cli("simulate", write_small(tmp_path, "".join(arms)))
    assert result.exit_code == 0
    assert "nothing to compare" in result.output


def test_nothing_is_written(spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(spec.parent)
    before = sorted(spec.parent.iterdir())
    assert run_cli("simulate", spec).exit_code == 0
    assert sorted(spec.parent.iterdir()) == before
