"""Runs created from existing responses, exports or shards."""
