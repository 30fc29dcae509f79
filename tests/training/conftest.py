"""Runs made in this process, as in tests/running."""

from tests.running.conftest import go

__all__ = ["go"]
