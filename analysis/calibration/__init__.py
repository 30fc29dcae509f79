"""A rewarder's verdicts against labels."""
