"""Runs created from existing responses or exports."""
