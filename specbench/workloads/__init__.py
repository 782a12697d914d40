"""Prompt files: reading, checking, digests."""
