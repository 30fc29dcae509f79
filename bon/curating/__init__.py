"""A reward benchmark from judged runs: propose, draft, annotate, audit, freeze, predict."""
