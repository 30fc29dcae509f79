"""Whether the items of a reward benchmark can be trusted: labels, items, shortcuts. Pure."""
