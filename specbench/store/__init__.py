"""The DuckDB index over the raw run folders."""
