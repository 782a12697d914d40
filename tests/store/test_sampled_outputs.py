"""Sampled outputs from cells to rows; the cells are those of a real run with other outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from specbench.artifacts import OUTPUTS_SCHEMA, CellFolder, find_runs
from specbench.facts import RequestRow, Verdict
from specbench.store.comparisons import Comparison, comparisons
from specbench.store.judged_run import JudgedCell, JudgedDeployment, JudgedRun, judged_deployments
from specbench.store.sampled_outputs import sampled_rows
from tests.conftest import FinishedRun, row

PROMPTS, PASSES = 8, 8
Draw = Callable[[str, int, int], Sequence[int] | None]
"""Arm, block and pass to the token ids of an output."""


@pytest.fixture(scope="module")
def real(finished: FinishedRun) -> tuple[JudgedRun, Comparison]:
    """The finished run as if its one sampling had a temperature, one load point alone."""
    (folder,) = find_runs(finished.folder / "runs")
    run = JudgedRun.of(folder)
    (shipped,) = comparisons(list(judged_deployments(run)))
    sampling = [{**run.experiment["sampling"][0], "temperature": 1.0}]
    run = attrs.evolve(
        run, plan={**run.plan, "experiment": {**run.experiment, "sampling": sampling}}
    )
    kept = tuple(
        attrs.evolve(item, cells=item.cells[:1])
        for item in shipped.deployments
        if item.arm["name"] != "eagle-k3"
    )
    return run, attrs.evolve(shipped, deployments=kept, told=())


def found(
    real: tuple[JudgedRun, Comparison], folder: Path, draw: Draw, passes: int = PASSES
) -> list[dict[str, Any]]:
    run, shipped = real
    items = tuple(_drawn(item, folder, draw, passes) for item in shipped.deployments)
    return sampled_rows(run, attrs.evolve(shipped, deployments=items))


def _drawn(item: JudgedDeployment, folder: Path, draw: Draw, passes: int) -> JudgedDeployment:
    rows: list[RequestRow] = []
    outputs = []
    for index in range(PROMPTS * passes):
        place = {"prompt_id": f"p{index % PROMPTS}", "pass_index": index // PROMPTS}
        rows.append(row(index, **place))
        token_ids = draw(item.arm["name"], item.block, index // PROMPTS)
        outputs.append({"request_id": f"r{index}", "prompt_id": "p", "token_ids": token_ids})
    path = folder / item.deployment_id.replace("/", "-")
    path.mkdir()
    pq.write_table(pa.Table.from_pylist(outputs, OUTPUTS_SCHEMA), path / "outputs.parquet")
    cell: JudgedCell = attrs.evolve(item.cells[0], rows=tuple(rows), folder=CellFolder(path))
    return attrs.evolve(item, cells=(cell,))


def talking(stop: float, seed: int = 3) -> Callable[[], list[int]]:
    chance = Random(seed)

    def one() -> list[int]:
        said = [chance.randrange(9)]
        while chance.random() > stop and len(said) < 12:
            said.append(chance.randrange(9))
        return said

    return one


def outcomes(rows: list[dict[str, Any]]) -> dict[str, str]:
    return {row["respect"]: row["outcome"] for row in rows}


def test_an_arm_that_ends_sooner_differs_in_length_and_one_that_does_not_is_not_said_to(
    real: tuple[JudgedRun, Comparison], tmp_path: Path
) -> None:
    usual, hasty = talking(0.1), talking(0.5, seed=4)
    (tmp_path / "1").mkdir()
    rows = found(real, tmp_path / "1", lambda *_: usual())
    assert outcomes(rows) == dict.fromkeys(("length", "first_token", "ngram"), "none shown")
    # 8 prompts, 2 blocks, 4 of the 8 passes.
    assert {(row["arm"], row["outputs"]) for row in rows} == {("ngram-k3", 64)}
    assert {row["control"] for row in rows} == {"baseline of another block"}
    (tmp_path / "2").mkdir()
    rows = found(real, tmp_path / "2", lambda arm, *_: usual() if arm == "baseline" else hasty())
    assert outcomes(rows)["length"] == "differs"
    length = next(row for row in rows if row["respect"] == "length")
    assert length["arm_distance"] > length["control_distance"]
    # Three rows are tested, and this one has the smallest p-value or ties with it.
    assert length["p_adjusted"] == pytest.approx(3 * length["p_value"])


def test_launches_that_draw_the_same_random_numbers_do_not_accuse_an_arm_that_draws_others(
    real: tuple[JudgedRun, Comparison], tmp_path: Path
) -> None:
    usual = talking(0.1, seed=4)
    # The baselines of both blocks say the same in the same pass: their engines have one seed.
    seeded = {1: talking(0.1), 2: talking(0.1)}
    rows = found(
        real, tmp_path, lambda arm, block, _: seeded[block]() if arm == "baseline" else usual()
    )
    assert set(outcomes(rows).values()) == {"none shown"}
    # Compared pass by pass the control would be the baseline itself.
    assert all(row["control_distance"] > 0 for row in rows)


def test_prompts_that_were_sent_once_cannot_be_compared(
    real: tuple[JudgedRun, Comparison], tmp_path: Path
) -> None:
    usual = talking(0.1)
    (only,) = found(real, tmp_path, lambda *_: usual(), passes=1)
    assert (only.get("respect"), only["outcome"], only["p_value"]) == (None, "undecided", None)
    assert only["reason"].startswith("the prompts were sent once")


def test_an_engine_that_tells_no_token_ids_is_not_compared(
    real: tuple[JudgedRun, Comparison], tmp_path: Path
) -> None:
    (only,) = found(real, tmp_path, lambda *_: None, passes=2)
    assert only["reason"] == "no prompt has token ids on every side"


def test_one_baseline_is_no_control_of_itself(
    real: tuple[JudgedRun, Comparison], tmp_path: Path
) -> None:
    run, shipped = real
    first = tuple(item for item in shipped.deployments if item.block == 1)
    usual = talking(0.1)
    one_block = (run, attrs.evolve(shipped, deployments=first))
    (only,) = found(one_block, tmp_path, lambda *_: usual())
    assert only["reason"].startswith("no control: design.noise_floor")


def test_a_rejected_deployment_is_compared_with_nothing(
    real: tuple[JudgedRun, Comparison], tmp_path: Path
) -> None:
    run, shipped = real
    failed = Verdict(gate="in_effect.method", outcome="fail", observed="", required="")
    items = tuple(
        attrs.evolve(item, verdicts=(failed,)) if item.arm["name"] == "baseline" else item
        for item in shipped.deployments
    )
    usual = talking(0.1)
    rejected = (run, attrs.evolve(shipped, deployments=items))
    (only,) = found(rejected, tmp_path, lambda *_: usual())
    assert only["reason"] == "no block has this cell of both the arm and the baseline"


def test_few_outputs_are_undecided_and_not_found_equal(
    real: tuple[JudgedRun, Comparison], tmp_path: Path
) -> None:
    usual = talking(0.1)
    run, shipped = real
    # One prompt, two blocks, one output a side: one division of four is the real one.
    items = tuple(
        attrs.evolve(item, cells=(attrs.evolve(item.cells[0], rows=item.cells[0].rows[:9]),))
        for item in (_drawn(i, tmp_path, lambda *_: usual(), 2) for i in shipped.deployments)
    )
    rows = sampled_rows(run, attrs.evolve(shipped, deployments=items))
    assert {row["least_p_value"] for row in rows} == {0.25}
    assert {row["reason"] for row in rows} == {"so few outputs cannot show a difference"}
    assert {row["outcome"] for row in rows} == {"undecided"}


def test_greedy_outputs_are_not_compared_by_distribution(
    finished: FinishedRun, real: tuple[JudgedRun, Comparison]
) -> None:
    (folder,) = find_runs(finished.folder / "runs")
    assert sampled_rows(JudgedRun.of(folder), real[1]) == []
