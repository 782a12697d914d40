from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import attrs
import pytest

from specbench.analysis.effects import METRICS
from specbench.errors import ExperimentError, StoreError
from specbench.report.charts.sections import figures
from specbench.report.content import Content, read_content
from specbench.report.page import html_page, write_report
from specbench.report.tables.cells import cells_table
from specbench.report.tables.effects import effects_table
from specbench.report.tables.html import span
from specbench.report.tables.rulings import failures_table
from specbench.store.store import opened
from tests.conftest import SMALL, FinishedRun, made_once, run_small


@pytest.fixture(scope="module")
def content(finished: FinishedRun) -> Content:
    with opened(finished.results) as connection:
        return read_content(connection, finished.run.name)


class Outline(HTMLParser):
    """Headings, links to outside, and whether tags are balanced."""

    def __init__(self) -> None:
        super().__init__()
        self.headings: list[str] = []
        self.outside: list[str] = []
        self._in = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._in = tag
        self.outside += [
            v for k, v in attributes if k in ("src", "href") and v and not v.startswith("#")
        ]

    def handle_data(self, data: str) -> None:
        if self._in in ("h1", "h2"):
            self.headings.append(data)
            self._in = ""


def test_the_page_stands_alone_and_says_everything(finished: FinishedRun) -> None:
    (page,) = (finished.folder / "reports").glob("*.html")
    text = page.read_text()
    outline = Outline()
    outline.feed(text)
    assert outline.outside == []
    assert outline.headings == [
        "Does the walk work?",
        "What may be claimed",
        "Effects",
        "Speed-up by workload and load",
        "Acceptance against speed-up",
        "What a step costs, and what pays for it",
        "Acceptance by position",
        "Distributions of TPOT and TTFT",
        "Drift over time and node",
        "Limits of this result",
        "What differed besides the method",
        "Anomalies",
        "Failed launches",
        "Gates that did not pass",
        "Correctness",
        "Every measured cell",
        "Provenance",
    ]
    assert page.stat().st_size < 3_000_000


@pytest.fixture(scope="module")
def pictures(finished: FinishedRun, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every picture of the run, in both forms."""

    def draw(folder: Path) -> str:
        drawn = write_report(finished.results, None, folder, ("png", "svg"))
        return "\n".join(map(str, drawn))

    _, paths = made_once(tmp_path_factory, "pictures", draw)
    return [Path(path) for path in paths.split("\n")]


def test_a_simulated_run_is_marked_on_the_page_and_in_every_picture(
    content: Content, pictures: list[Path]
) -> None:
    page = html_page(content, figures(content))
    assert "SIMULATED: every number on this page comes from a cost model" in page
    real = attrs.evolve(content, experiment={**content.experiment, "simulated": False})
    assert "<div class='banner'>" not in html_page(real, figures(real))
    drawn = [path for path in pictures if path.suffix == ".svg"]
    assert drawn
    for path in drawn:
        assert "SIMULATED" in path.read_text()
        assert "ngram-k3 also differs in: async scheduling (favours baseline)" in path.read_text()


def test_every_ratio_stands_beside_its_absolute_values_and_repeats(content: Content) -> None:
    table = effects_table(content)
    for repeat in content.repeats:
        assert f"{repeat['ratio']:.3f}" in table
        assert span([repeat["baseline"]]) in table
        assert span([repeat["arm_value"]]) in table
    assert table.count("no interval") == 4


def test_every_measured_cell_is_a_row(content: Content) -> None:
    assert cells_table(content).count("<tr>") == 1 + 12


def test_a_rejected_cell_and_a_failed_launch_are_shown(content: Content) -> None:
    cell = {**content.cells[0], "rejected": True}
    failed = {
        **content.deployments[0],
        "status": "failed",
        "cause_kind": "out_of_memory",
        "reason": "no room",
        "remedy": "less",
    }
    bad = attrs.evolve(content, cells=[cell], deployments=[failed])
    assert "rejected" in cells_table(bad)
    assert "out_of_memory" in failures_table(bad)


def test_an_unservable_arm_is_listed_until_somebody_asks_for_its_launch(tmp_path: Path) -> None:
    document = SMALL.replace("blocks: 2", "blocks: 1").replace("{1: 6, 4: 12}", "{1: 6, 4: 6}")
    document = document[: document.index("correctness")].replace(
        "{name: eagle-k3, method: eagle, model: toy-head,",
        "{name: draft, method: draft_model, model: toy-draft, draft_tensor_parallel: 2,",
    )
    done = run_small(tmp_path, document)
    assert done.result.exit_code == 0, done.result.output
    assert "note: arm 'draft' is unservable" in done.result.output
    (page,) = (tmp_path / "reports").glob("*.html")
    said = "draft_tensor_parallel 2 differs from the target&#x27;s 1"
    assert page.read_text().count(said) == 1
    assert "not launched" in page.read_text()
    with opened(done.results) as connection:
        assert read_content(connection, None).arms == ("baseline", "ngram-k3")

    again = run_small(tmp_path, document, "--launch-unservable")
    assert again.result.exit_code == 0, again.result.output
    with opened(done.results) as connection:
        content = read_content(connection, None)
    assert content.arms == ("baseline", "draft", "ngram-k3")
    assert [row["attempt"] for row in content.deployments] == [1, 1, 1]
    assert said not in page.read_text()


def test_hostile_text_is_shown_as_text(content: Content) -> None:
    evil = "</script><script>alert(1)</script>"
    failed = {**content.deployments[0], "status": "failed", "reason": evil}
    bad = attrs.evolve(
        content,
        experiment={**content.experiment, "question": evil, "document": evil},
        deployments=[failed, *content.deployments[1:]],
        requests=[{**row, "arm": evil} for row in content.requests],
    )
    page = html_page(bad, figures(bad))
    assert "<script>alert" not in page
    assert len(re.findall("</script>", page)) == 2


def test_pictures_are_written_in_both_forms(finished: FinishedRun, pictures: list[Path]) -> None:
    assert {path.parent.name for path in pictures} == {finished.run.name}
    assert len(pictures) == 2 * len(list(pictures[0].parent.glob("*.svg")))
    assert all(path.read_bytes()[:4] == b"\x89PNG" for path in pictures if path.suffix == ".png")


def test_an_unknown_format_or_run_is_refused(finished: FinishedRun, tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="no report format 'pdf'"):
        write_report(finished.results, None, tmp_path, ("pdf",))
    with pytest.raises(StoreError, match=f"known: {finished.run.name}"):
        write_report(finished.results, "nothing", tmp_path, ("html",))


def test_two_samplings_are_drawn_apart(content: Content) -> None:
    def both(found: list[dict]) -> list[dict]:
        return [*found, *({**row, "sampling": "warm"} for row in found)]

    two = attrs.evolve(
        content,
        effects=both(content.effects),
        repeats=both(content.repeats),
        positions=both(content.positions),
        requests=both(content.requests),
        break_evens=both(content.break_evens),
    )
    one = {figure.name for figure in figures(content) if figure.section != "drift"}
    drawn = {figure.name for figure in figures(two) if figure.section != "drift"}
    assert drawn == one | {name.replace("greedy", "warm") for name in one}


def test_a_ratio_is_coloured_only_where_its_interval_excludes_1(content: Content) -> None:
    assert "class='gain'" not in effects_table(content)
    for low, high, style in ((1.1, 1.3, "gain"), (0.7, 0.9, "loss"), (0.9, 1.1, "open")):
        effects = [{**row, "low": low, "high": high} for row in content.effects]
        shown = effects_table(attrs.evolve(content, effects=effects))
        assert shown.count(f"class='{style}'") == len(content.effects) // len(METRICS)
