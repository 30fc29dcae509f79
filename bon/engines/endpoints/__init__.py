"""Engines behind an HTTP endpoint."""
