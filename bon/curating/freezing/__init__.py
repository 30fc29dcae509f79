"""Freezing a version of the benchmark."""
