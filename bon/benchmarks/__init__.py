"""One file a benchmark: each reads a dataset into Questions or PreferencePairs."""
