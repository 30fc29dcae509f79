"""The resolved experiment and the units of its work: what exists, and what is left to do."""
