"""What an experiment will cost, and what there is to choose from."""
