"""Best-of-N and rewards online."""
