"""Labels by people and drafts by a judge."""
