"""The verdict: does the benchmark predict, and how certain is that."""
