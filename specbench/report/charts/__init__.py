"""Altair charts of a run, by panel. Each says in its axis which quantity it shows."""
