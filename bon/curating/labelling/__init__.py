"""Labels by people."""
