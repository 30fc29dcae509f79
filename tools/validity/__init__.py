"""Simulation studies of the intervals and verdicts."""
