"""One self-contained HTML page, and its charts as pictures. Works offline."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import vl_convert

from specbench.errors import ExperimentError, Problem
from specbench.report.bundle import javascript
from specbench.report.charts.figure import Figure
from specbench.report.charts.sections import SECTIONS, figures
from specbench.report.content import Content, read_content
from specbench.report.correctness import correctness_panel
from specbench.report.decision import decision_section
from specbench.report.sampled import sampled_section
from specbench.report.tables.cells import cells_table
from specbench.report.tables.differences import (
    anomalies_table,
    cell_differences_table,
    differences_table,
    warnings_table,
)
from specbench.report.tables.effects import effects_table
from specbench.report.tables.html import title
from specbench.report.tables.provenance import commands, provenance_table
from specbench.report.tables.rulings import failures_table, verdicts_table
from specbench.store.store import opened

FORMATS = ("html", "png", "svg")
PICTURE_WIDTH = 640
PICTURE_SCALE = 2


_EMBED = "window.vegaEmbed = vegaEmbed;"


def write_report(
    results: Path, run_id: str | None, out: Path, formats: Sequence[str]
) -> list[Path]:
    """Write a run's report and give the files.

    Raises:
        ExperimentError: A format is not known.
        StoreError: There is no such index or run.
    """
    unknown = [name for name in formats if name not in FORMATS]
    if unknown:
        raise ExperimentError(
            [Problem(f"no report format {unknown[0]!r}", f"one of: {', '.join(FORMATS)}")]
        )
    with opened(results) as connection:
        content = read_content(connection, run_id)
    drawn = figures(content)
    out.mkdir(parents=True, exist_ok=True)
    stem = content.experiment["run_id"]
    written = []
    if "html" in formats:
        page = out / f"{stem}.html"
        page.write_text(html_page(content, drawn), encoding="utf-8")
        written.append(page)
    for kind in [name for name in ("png", "svg") if name in formats]:
        folder = out / stem
        folder.mkdir(exist_ok=True)
        for figure in drawn:
            path = folder / f"{figure.name}.{kind}"
            path.write_bytes(_picture(figure, kind, content))
            written.append(path)
    return written


def html_page(content: Content, drawn: Sequence[Figure]) -> str:
    """Give the page."""
    specs = {f"chart-{figure.name}": figure.chart.to_dict() for figure in drawn}
    template = Template(files("specbench.report").joinpath("template.html").read_text("utf-8"))
    experiment = content.experiment
    return template.substitute(
        title=escape(f"{experiment['name']} - specbench"),
        banner=_banner(content),
        question=escape(experiment["question"]),
        lead=escape(_lead(content)),
        decision=decision_section(content),
        effects=effects_table(content),
        figures="".join(_sections(content, drawn)),
        differences=differences_table(content),
        cell_differences=cell_differences_table(content),
        warnings=warnings_table(content),
        anomalies=anomalies_table(content),
        failures=failures_table(content),
        verdicts=verdicts_table(content),
        correctness=correctness_panel(content),
        sampled_outputs=sampled_section(content),
        cells=cells_table(content),
        provenance=provenance_table(content),
        commands=commands(content),
        document=escape(experiment["document"]),
        # A closing tag inside a script ends it, wherever it stands; names of arms are anybody's.
        bundle=javascript(_EMBED).replace("</script", "<\\/script"),
        charts=json.dumps(specs).replace("<", "\\u003c"),
    )


def _banner(content: Content) -> str:
    said = []
    if content.simulated:
        said.append(
            "SIMULATED: every number on this page comes from a cost model, not from a model on "
            "hardware."
        )
    if content.experiment["rehearsal"]:
        said.append("REHEARSAL: a trial of a few cells of one arm. Nothing is compared.")
    return "".join(f"<div class='banner'>{escape(line)}</div>" for line in said)


def _lead(content: Content) -> str:
    experiment = content.experiment
    blocks = len({row["block"] for row in content.deployments})
    arms = content.arms
    mark = "SIMULATED. " if content.simulated else ""
    return (
        f"{mark}{experiment['stage'].capitalize()} of {len(arms)} arms ({', '.join(arms)}) on "
        f"{experiment['model']} with {experiment['engine']} "
        f"{experiment['engine_version'] or ''}: {len(content.deployments)} deployments in "
        f"{blocks} blocks, {len(content.cells)} measured cells."
    )


def _sections(content: Content, drawn: Sequence[Figure]) -> Iterator[str]:
    for name, section in SECTIONS.items():
        chosen = [figure for figure in drawn if figure.section == name]
        beside = section.beside(content) if section.beside else ""
        if not chosen and not beside:
            continue
        yield f"<h2>{escape(section.title)}</h2><p class='about'>{escape(section.about)}</p>"
        if chosen:
            yield f"<div class='grid'>{''.join(map(_figure, chosen))}</div>"
        yield beside


def _figure(figure: Figure) -> str:
    return (
        f"<figure><h3>{escape(figure.title)}</h3>"
        f"<div id='chart-{escape(figure.name)}'></div></figure>"
    )


def _picture(figure: Figure, kind: str, content: Content) -> bytes:
    """Give a chart as a picture, with SIMULATED in it where due and what else differed under it.

    A picture leaves the page, and no ratio may be read without what else differed.
    """
    mark = "SIMULATED: " if content.simulated else ""
    title = {
        "text": f"{mark}{SECTIONS[figure.section].title}: {figure.title}",
        "subtitle": list(_differing_lines(content)),
        "subtitleFontSize": 10,
    }
    spec: dict[str, Any] = figure.chart.to_dict() | {
        "width": PICTURE_WIDTH,
        "title": title,
        "background": "white",
    }
    if kind == "svg":
        return vl_convert.vegalite_to_svg(spec).encode()
    return vl_convert.vegalite_to_png(spec, scale=PICTURE_SCALE)


def _differing_lines(content: Content) -> Iterator[str]:
    """Say what differs besides the method; arms that differ alike share a line."""
    alike: dict[str, list[str]] = {}
    for arm in content.arms:
        found = dict.fromkeys(
            f"{title(row['fact'])} ({row['direction']})"
            for row in content.differences
            if row["arm"] == arm and row["comparison"] == "shipped"
        )
        if found:
            alike.setdefault(", ".join(found), []).append(arm)
    for said, arms in alike.items():
        yield f"{', '.join(arms)} also {'differ' if len(arms) > 1 else 'differs'} in: {said}"
