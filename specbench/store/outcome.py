"""What a finished run amounts to, for exit codes."""

from __future__ import annotations

import duckdb

from specbench.store.store import rows


def has_comparable_block(connection: duckdb.DuckDBPyConnection, run_id: str) -> bool:
    """Tell whether some block has both its baseline and another arm in service."""
    found = rows(
        connection,
        """
        select block from deployments
        where run_id = ? and status = 'complete'
        group by block
        having bool_or(role in ('baseline', 'noise_floor')) and bool_or(role = 'arm')
        """,
        [run_id],
    )
    return bool(found)


def failures(connection: duckdb.DuckDBPyConnection, run_id: str) -> list[str]:
    """Give every failed deployment and every failed verdict of a run, a line each."""
    deployments = rows(
        connection,
        "select deployment_id, status, reason from deployments "
        "where run_id = ? and status not in ('complete', 'interrupted') order by 1",
        [run_id],
    )
    verdicts = rows(
        connection,
        "select coalesce(cell_id, deployment_id) as place, gate, observed from verdicts "
        "join deployments using (deployment_id) "
        "where run_id = ? and outcome = 'fail' order by 1, 2",
        [run_id],
    )
    return [f"{row['deployment_id']}: {row['status']}: {row['reason']}" for row in deployments] + [
        f"{row['place']}: {row['gate']} failed: {row['observed']}" for row in verdicts
    ]
