"""Prompting policies and extracting their answers."""
