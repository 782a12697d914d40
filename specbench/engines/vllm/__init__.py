"""vLLM: its command line, its log, its configuration, its failures."""
