"""What can be seen of a server and a machine: metrics, logs, provenance."""
