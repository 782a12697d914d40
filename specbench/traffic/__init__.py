"""Streaming load: requests, streams, closed loops, warm-up."""
