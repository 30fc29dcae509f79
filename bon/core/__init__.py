"""Records that flow through a run, and helpers that every room uses."""
