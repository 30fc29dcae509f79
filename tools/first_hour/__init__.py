"""The first hour on a rented GPU, rehearsed on a machine without one: `make first-hour`."""
