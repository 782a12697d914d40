"""HTML tables of a run, by panel. Everything that comes from outside is escaped."""
