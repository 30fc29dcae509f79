"""A reward benchmark from judged runs or preference sets: draw, label, audit, freeze."""
