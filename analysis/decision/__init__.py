"""Decisions between rewarders, and what they cost."""
