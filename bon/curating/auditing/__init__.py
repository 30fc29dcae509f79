"""Audit of the items: labels, difficulty, shortcuts."""
