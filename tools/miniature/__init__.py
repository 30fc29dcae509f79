"""Training of the miniature's checkpoints from seeds."""
