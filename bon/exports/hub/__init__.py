"""Dataset folders for the hub."""
