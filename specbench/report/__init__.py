"""Pages and pictures made from the store, and from nothing else."""
