"""How often a judgement changes when it is repeated in another batch."""

import pandas as pd

from bon.analysis.estimators.resampling import wilson
from bon.analysis.results import Options, RepeatCheck
from bon.analysis.results.phrasing import share, short

ROUNDING = 1e-6
"""Smaller changes of a score, relative to itself or to one, are rounding."""


def repeats(table: pd.DataFrame, options: Options) -> tuple[RepeatCheck, ...]:
    """Return one result per rewarder of the table (bon.work.repeat_check.repeat_table)."""
    groups = table.groupby("rewarder", sort=False)
    return tuple(_repeated(str(name), rows, options) for name, rows in groups)


def _repeated(rewarder: str, rows: pd.DataFrame, options: Options) -> RepeatCheck:
    valid = rows[rows["again"] != "error"]
    scores, again = (pd.to_numeric(valid[column]) for column in ("score", "score_again"))
    difference = (again - scores).abs()
    changed_score = difference > ROUNDING * scores.abs().clip(lower=1)
    hits = int(((valid["before"] != valid["again"]) | changed_score).sum())
    changed = wilson(hits, len(valid), options.level)
    scored = bool(difference.notna().any())
    largest = float(difference.max()) if scored else None
    spread = float(scores.std(ddof=0)) if scored else None
    what = "scores" if scored else "judgements"
    sentence = (
        f"{rewarder}: {hits} of {len(valid)} {what} changed when asked again in other batches"
    )
    if changed.low is not None and changed.high is not None:
        sentence += f" ({share(changed)})"
    if largest:
        sentence += f", by at most {short(largest)}; their standard deviation is {short(spread)}"
    return RepeatCheck(
        rewarder=rewarder,
        num_repeated=len(valid),
        errors=len(rows) - len(valid),
        changed=changed,
        largest=largest,
        spread=spread,
        sentence=sentence,
    )
