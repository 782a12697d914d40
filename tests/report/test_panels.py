"""What single panels show, on contents made by hand from those of one small run."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from specbench.report.charts import draft_length, drift, latency, speedup, step_cost
from specbench.report.charts.figure import family_colours
from specbench.report.content import Content, read_content
from specbench.report.limits import limits
from specbench.report.tables.differences import differences_table
from specbench.report.tables.explanatory import correlations_table, drift_table, step_cost_table
from specbench.store.store import opened
from tests.conftest import FinishedRun

Row = dict[str, Any]


@pytest.fixture(scope="module")
def content(finished: FinishedRun) -> Content:
    with opened(finished.results) as connection:
        return read_content(connection, finished.run.name)


def values(chart: Any) -> list[list[Row]]:
    """Give the rows of every layer of a chart."""
    spec = chart.to_dict()
    held = spec["datasets"]
    return [held[layer["data"]["name"]] for layer in spec.get("layer", [spec])]


def with_noise_floor(content: Content, *ratios: float) -> Content:
    again = {"arm": "baseline-repeat", "role": "noise_floor"}
    (first, *_) = [r for r in content.repeats if r["load_point"] == 1]
    (effect, *_) = [
        row
        for row in content.effects
        if row["load_point"] == 1 and row["metric"] == "output_throughput"
    ]
    repeats = [{**first, **again, "block": at, "ratio": r} for at, r in enumerate(ratios, start=1)]
    deployment = {**content.deployments[0], **again, "family": "baseline", "longest_draft": None}
    return attrs.evolve(
        content,
        arms=("baseline", "baseline-repeat", *content.arms[1:]),
        deployments=[*content.deployments, deployment],
        effects=[*content.effects, {**effect, **again}],
        repeats=[*content.repeats, *repeats],
    )


def test_the_effect_of_a_again_stands_behind_every_row_of_its_load(content: Content) -> None:
    (figure,) = speedup.speedups(with_noise_floor(content, 0.97, 1.04))
    band = values(figure.chart)[0]
    assert {row["arm"] for row in band} == {"baseline-repeat", "ngram-k3", "eagle-k3"}
    assert {(row["load_point"], row["low"], row["high"]) for row in band} == {(1, 0.97, 1.04)}


def test_every_repeat_and_interval_is_drawn(content: Content) -> None:
    bounded = [{**row, "low": 0.8, "high": 1.2, "blocks": 3} for row in content.effects]
    (figure,) = speedup.speedups(attrs.evolve(content, effects=bounded))
    unity, dots, ticks, labels, spans = values(figure.chart)
    assert unity == [{"ratio": 1.0}]
    assert sorted(row["ratio"] for row in dots) == sorted(r["ratio"] for r in content.repeats)
    assert len(ticks) == len(labels) == len(spans) == 4
    # Three blocks make a wide interval, which is dashed.
    assert {(row["low"], row["high"], row["sure"]) for row in spans} == {(0.8, 1.2, False)}


def swept(content: Content) -> Content:
    """Give the n-gram arm a sibling of another k that is 1.5 times as fast."""
    (arm,) = [r for r in content.deployments if r["arm"] == "ngram-k3" and r["block"] == 1]
    longer = [
        {**row, "arm": "ngram-k8", "estimate": 1.5}
        for row in content.effects
        if row["arm"] == "ngram-k3"
    ]
    return attrs.evolve(
        content,
        arms=(*content.arms, "ngram-k8"),
        deployments=[*content.deployments, {**arm, "arm": "ngram-k8", "longest_draft": 8}],
        effects=[*content.effects, *longer],
    )


def test_a_swept_draft_length_is_drawn_by_load_and_a_single_one_is_not(content: Content) -> None:
    assert list(draft_length.draft_lengths(content)) == []
    (figure,) = draft_length.draft_lengths(swept(content))
    assert figure.name == "k-ngram-mixed-greedy"
    lines = values(figure.chart)[1]
    assert sorted((row["k"], row["load"]) for row in lines) == [
        (3, "c=1"),
        (3, "c=4"),
        (8, "c=1"),
        (8, "c=4"),
    ]
    assert {row["ratio"] for row in lines if row["k"] == 8} == {1.5}


def test_families_of_one_method_have_file_names_of_their_own(content: Content) -> None:
    once = swept(content)
    renamed = {"ngram-k3": "other-k3", "ngram-k8": "other-k8"}
    more = [r for r in once.deployments if r["arm"] in renamed]
    both = attrs.evolve(
        once,
        arms=(*once.arms, *renamed.values()),
        deployments=[
            *once.deployments,
            *({**r, "arm": renamed[r["arm"]], "family": "ngram, path /a/b"} for r in more),
        ],
        effects=[
            *once.effects,
            *({**r, "arm": renamed[r["arm"]]} for r in once.effects if r["arm"] in renamed),
        ],
    )
    names = [figure.name for figure in draft_length.draft_lengths(both)]
    assert names == ["k-ngram-mixed-greedy", "k-ngram-2-mixed-greedy"]


def test_an_arm_looks_like_its_family(content: Content) -> None:
    assert list(family_colours(swept(content))) == ["eagle", "ngram"]


BREAK_EVEN = {
    "stratum": "mixed",
    "sampling": "greedy",
    "load_point": 1,
    "arm": "ngram-k3",
    "comparison": "shipped",
    "denominator": "baseline",
    "blocks": 5,
    "cost": 1.5,
    "cost_low": 1.4,
    "cost_high": 1.6,
    "delivered_per_step": 2.0,
    "delivered_length": 3.0,
    "break_even_length": 2.0,
    "length_low": 1.8,
    "length_high": 2.2,
    "bound": 2.1,
    "ceiling": 2.67,
    "interval_note": "",
    "missing": [],
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "<td class='gain'>above</td>"),
        ({"delivered_length": 1.7}, "<td class='loss'>below</td>"),
        ({"delivered_length": 2.1}, "<td>near break-even</td>"),
        ({"blocks": 4}, "<td class='open'>above, wide</td>"),
        ({"blocks": 2, "length_low": None, "cost_low": None}, "<td>no interval</td>"),
        ({"blocks": 0, "cost": None, "missing": ["block 1: no batch"]}, "<td>withheld</td>"),
    ],
)
def test_which_side_of_the_break_even_is_told_with_its_certainty(
    content: Content, changes: Row, said: str
) -> None:
    shown = step_cost_table(attrs.evolve(content, break_evens=[{**BREAK_EVEN, **changes}]))
    assert said in shown
    assert ("block 1: no batch" in shown) == ("cost" in changes)


def test_a_withheld_step_cost_is_not_drawn(content: Content) -> None:
    withheld = {**BREAK_EVEN, "load_point": 4, "cost": None}
    both = attrs.evolve(content, break_evens=[BREAK_EVEN, withheld])
    (figure,) = step_cost.step_costs(both)
    assert all(row.get("load_point") == 1 for layer in values(figure.chart) for row in layer)
    assert list(step_cost.step_costs(attrs.evolve(content, break_evens=[withheld]))) == []


def test_correlations_are_labelled_explanatory_or_a_sentence_says_why_there_are_none(
    content: Content,
) -> None:
    assert "needs 4 with acceptance, here are 2" in correlations_table(content)
    found = [
        {**row, "arms": 4, "pearson": -0.876, "spearman": -0.8} for row in content.correlations
    ]
    shown = correlations_table(attrs.evolve(content, correlations=found))
    assert "explanatory" in shown
    # Two loads, each with rate and length against three metrics.
    assert shown.count("-0.80 (-0.88)") == 12


def test_a_deployment_is_drawn_against_its_own_arms_mean(content: Content) -> None:
    def fast(row: Row) -> float:
        return 200.0 if row["block"] == 2 else 50.0

    cells = [{**row, "output_throughput": fast(row), "rejected": False} for row in content.cells]
    (figure,) = drift.drift(attrs.evolve(content, cells=cells))
    points = values(figure.chart)[1]
    assert len(points) == 6
    for row in points:
        assert row["ratio"] == pytest.approx({1: 0.5, 2: 2.0}[row["block"]])
    once = [row for row in cells if row["block"] == 1]
    assert list(drift.drift(attrs.evolve(content, cells=once))) == []


def test_nodes_are_compared_where_there_are_two(content: Content) -> None:
    assert "how far nodes differ is not known" in drift_table(content)
    other = {**content.deployments[0], "host": "node-b"}
    node = {**BREAK_EVEN, "host": "node-b", "ratio": 0.97, "deployments": 3}
    shown = drift_table(
        attrs.evolve(content, deployments=[*content.deployments, other], nodes=[node])
    )
    assert "-3.00%" in shown


def test_the_limits_always_name_five(content: Content) -> None:
    said = limits(content)
    for name in (
        "Selection bias",
        "Workload licences",
        "Gateway and network",
        "Node-to-node variability",
        "Looks at the results",
    ):
        assert f"<strong>{name}.</strong>" in said
    assert "2 arms were compared" in said
    assert "mixed: Apache-2.0" in said
    assert "one node" in said
    assert "2 blocks give effects: nothing is claimed under 5" in said
    assert "No noise floor" in said
    assert "A cost model made every number" in said


def test_the_limits_tell_looks_caveats_and_what_is_not_known(content: Content) -> None:
    plan = json.loads(content.experiment["plan"])
    del plan["licences"]
    plan["experiment"]["launcher"] = {
        "kind": "attach",
        "servers": {"baseline": {}, "eagle-k3": {"proxy_env": "https_proxy"}},
    }
    experiment = {
        **content.experiment,
        "plan": json.dumps(plan),
        "stage": "confirmation",
        "simulated": False,
    }
    odd = {**content.deployments[0], "caveats": ["acceptance is synthetic"], "arm": "<b>odd</b>"}
    said = limits(
        attrs.evolve(
            content,
            experiment=experiment,
            deployments=[odd],
            looked=[{"looks": 7, "before_last": 3}],
            cells=[{**content.cells[0], "rejected": True}],
        )
    )
    assert "Results were shown 7 times before this page, at least, at 3 points before" in said
    assert "does not record the licences" in said
    assert "The servers were already running" in said
    assert "Through an HTTP proxy: eagle-k3." in said
    assert "Other arms had none" in said
    assert "https_proxy" not in said
    assert "only a confirmation" not in said
    assert "cost model" not in said
    assert "1 of 1 cells are in no effect" in said
    assert "Caveat of &lt;b&gt;odd&lt;/b&gt;.</strong> acceptance is synthetic" in said


def test_a_page_of_many_deployments_stays_small(content: Content) -> None:
    (one, *_) = content.requests
    many = [
        {**one, "block": block, "stratum": f"s{stratum}", "ttft_ms": 1.0 / n, "tpot_ms": 1e6 / n}
        for block in range(60)
        for stratum in range(6)
        for n in range(1, 60)
    ]
    drawn = latency.latency(attrs.evolve(content, requests=many))
    size = sum(len(json.dumps(figure.chart.to_dict())) for figure in drawn)
    assert size < 1_500_000


def test_arms_that_differ_alike_share_a_row(content: Content) -> None:
    (row, *_) = content.differences
    twice = attrs.evolve(content, differences=[row, {**row, "arm": "other"}])
    assert differences_table(twice).count("<tr>") == 2
    assert f"<td>{row['arm']}, other</td>" in differences_table(twice)
    apart = attrs.evolve(content, differences=[row, {**row, "arm": "other", "arm_value": "?"}])
    assert differences_table(apart).count("<tr>") == 3
