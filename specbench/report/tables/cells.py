"""The table of measured windows."""

from __future__ import annotations

from specbench.report.content import Content, Row
from specbench.report.tables.html import ms, number, table


def cells_table(content: Content) -> str:
    """Give every measured window, rejected ones too."""
    body = [
        [
            cell["stratum"],
            cell["sampling"],
            f"{cell['load_point']:g}",
            cell["arm"],
            f"{cell['block']}" + (" split" if cell["split"] else ""),
            f"{cell['successes']} / {cell['requests']}",
            number(cell["output_throughput"], ",.1f"),
            number(cell["steady_throughput"], ",.1f"),
            ms(cell["tpot_p50_s"], 2),
            ms(cell["ttft_p50_s"], 1),
            _p95(cell),
            number(cell["achieved_concurrency"], ".2f"),
            number(cell["acceptance_rate"], ".1%"),
            number(cell["acceptance_length"], ".2f"),
            number(cell["tokens_per_step"], ".2f"),
            number(cell["prefix_hit_rate"], ".1%"),
            ("rejected", "bad") if cell["rejected"] else "ok",
        ]
        for cell in content.cells
    ]
    headers = (
        "stratum",
        "sampling",
        "load",
        "arm",
        "block",
        "successes",
        "tok/s",
        "steady tok/s",
        "TPOT p50 ms",
        "TTFT p50 ms",
        "E2E p95 s",
        "reached conc.",
        "accepted / drafted",
        "accept. length",
        "tokens / step",
        "prefix hits",
        "cell",
    )
    return table(headers, body, empty="No cell was measured.")


def _p95(cell: Row) -> str:
    if cell["e2e_p95_s"] is None:
        return "withheld"
    return f"{cell['e2e_p95_s']:.3f}" + (" (weak)" if cell["p95_weak"] else "")
