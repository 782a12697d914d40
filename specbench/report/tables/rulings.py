"""Tables of what failed: launches, gates, and equal greedy outputs beside them."""

from __future__ import annotations

from collections.abc import Sequence

from specbench.report.content import Content
from specbench.report.tables.html import Cell, table


def failures_table(content: Content) -> str:
    """Give deployments that were not measured to the end, and arms that were not launched."""
    body: list[Sequence[Cell]] = [
        [
            row["arm"],
            ("not launched", "unsure"),
            "unservable",
            "; ".join(row["reasons"]),
            "run with --launch-unservable to try it",
        ]
        for row in content.unservable
    ]
    body += [
        [
            row["deployment_id"].rsplit("/", 1)[1],
            (row["status"], "bad"),
            row["cause_kind"] or "-",
            row["reason"] or "-",
            row["remedy"] or "-",
        ]
        for row in content.deployments
        if row["status"] != "complete"
    ]
    headers = ("deployment", "status", "kind", "reason", "what to do")
    done = "Every launch was measured to its end."
    return table(headers, body, empty=done if content.deployments else "No launch has ended yet.")


def verdicts_table(content: Content) -> str:
    """Give every verdict that is no pass."""
    body = [
        [
            row["place"].split("/", 1)[1],
            row["gate"],
            (row["outcome"], "bad" if row["outcome"] == "fail" else "unsure"),
            row["observed"],
            row["required"],
            row["advice"] or "-",
        ]
        for row in content.verdicts
    ]
    headers = ("where", "gate", "outcome", "observed", "required", "advice")
    done = "Every gate passed."
    return table(headers, body, empty=done if content.cells else "Nothing was measured to rule on.")
