"""Loaded models and the dispatch of work to them over Ray."""
