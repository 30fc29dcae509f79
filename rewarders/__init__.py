"""Prompting each kind of rewarder and parsing its reply."""
