"""How often a rewarder says something else when it is asked again in another batch."""

import pandas as pd

from bon.analysis.estimators.resampling import wilson
from bon.analysis.results import Options, RepeatCheck

ROUNDING = 1e-6
"""A score that changes by less, relative to itself or to one, is the same."""


def repeats(table: pd.DataFrame, options: Options) -> tuple[RepeatCheck, ...]:
    """By rewarder, in the order of the table (bon.running.repeating.repeat_table)."""
    groups = table.groupby("rewarder", sort=False)
    return tuple(_repeated(str(name), rows, options) for name, rows in groups)


def _repeated(rewarder: str, rows: pd.DataFrame, options: Options) -> RepeatCheck:
    there = rows[rows["again"] != "error"]
    scores, again = (pd.to_numeric(there[column]) for column in ("score", "score_again"))
    difference = (again - scores).abs()
    moved = difference > ROUNDING * scores.abs().clip(lower=1)
    hits = int(((there["before"] != there["again"]) | moved).sum())
    changed = wilson(hits, len(there), options.level)
    scored = bool(difference.notna().any())
    largest = float(difference.max()) if scored else None
    spread = float(scores.std(ddof=0)) if scored else None
    what = "scores" if scored else "judgements"
    sentence = (
        f"{rewarder}: {hits} of {len(there)} {what} changed when asked again in other batches"
    )
    if changed.low is not None and changed.high is not None:
        share = 100 * hits / len(there)
        sentence += f" ({share:.1f} % [{100 * changed.low:.1f}, {100 * changed.high:.1f}])"
    if largest:
        sentence += f", by at most {largest:.2g}; their standard deviation is {spread:.2g}"
    return RepeatCheck(
        rewarder=rewarder,
        num_repeated=len(there),
        errors=len(rows) - len(there),
        changed=changed,
        largest=largest,
        spread=spread,
        sentence=sentence,
    )
