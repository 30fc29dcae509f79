"""Responses and scores from other tools as rows of a run."""
