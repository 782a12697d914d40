"""A run's report as plain values for machines: no effect without what else differed."""

from __future__ import annotations

from typing import Any

from specbench.report.content import Content

TABLES = (
    "differences",
    "cell_differences",
    "warnings",
    "anomalies",
    "verdicts",
    "sampled_outputs",
    "decisions",
    "aa_validity",
    "traffic_mix",
    "correctness",
    "arm_correctness",
    "correctness_controls",
    "divergences",
    "break_evens",
    "correlations",
    "unservable",
)
OF_EFFECT = (
    "estimate",
    "low",
    "high",
    "interval_note",
    "blocks",
    "missing",
    "confounds",
    "correctness",
    "explanation",
    "caveats",
    "barred",
)


def plain(content: Content) -> dict[str, Any]:
    """Give effects of both comparisons, and everything that stands beside them."""
    experiment = content.experiment
    return {
        "run": experiment["run_id"],
        "question": experiment["question"],
        "simulated": content.simulated,
        "rehearsal": experiment["rehearsal"],
        "arms": content.arms,
        "effects": [
            {
                key: row[key]
                for key in (
                    "arm",
                    "role",
                    "comparison",
                    "denominator",
                    "stratum",
                    "sampling",
                    "concurrency",
                    "arrival_rate",
                    "metric",
                    *OF_EFFECT,
                )
            }
            for row in (*content.effects, *content.equalised)
        ],
        **{name: getattr(content, name) for name in TABLES},
    }
