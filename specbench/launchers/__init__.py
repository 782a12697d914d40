"""How a server comes to life and ends."""
