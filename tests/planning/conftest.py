"""Fixtures shared with the tests of runs."""

from running.conftest import go

__all__ = ["go"]
