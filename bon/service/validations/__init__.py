"""Validations submitted over HTTP."""
