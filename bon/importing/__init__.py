"""What other tools, runs and exports hold, as rows of a run."""
