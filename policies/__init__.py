"""How a policy is asked and how its answer is read."""
