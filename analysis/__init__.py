"""What a run's tables say: accuracy at n, benchmark accuracy, correlation, plots, report."""
