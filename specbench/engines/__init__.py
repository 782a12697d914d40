"""Server families."""
