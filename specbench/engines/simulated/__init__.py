"""A server over a cost model, with the wire shapes of vLLM."""
