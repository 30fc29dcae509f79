"""A run's database: tables, row validation, salvage."""
