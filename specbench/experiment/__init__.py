"""Experiment files: what people write, its schema, and how it is read."""
