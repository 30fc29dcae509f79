"""What to label next: more where labels vary more."""

import numpy as np
import pandas as pd

from bon.analysis.calibration.labelled import Labelled
from bon.core.errors import BonError

STRATA = 5


def next_items(votes: Labelled, count: int, seed: int) -> pd.DataFrame:
    """Draw items to label: columns item, label (empty), probability, stratum.

    Strata are fifths of the mean score (or of the verdict); each gets labels in proportion to its
    size and the spread of labels in it (Neyman 1934), at least one, drawn at random. Items that
    have a label come along: they were drawn with equal probability before, and every `probability`
    is that of being drawn in either round.
    """
    if votes.frame["probability"].notna().any():
        raise BonError(
            "labels were drawn with unequal probabilities already",
            "draw once from all items with a larger --next, and label them all",
        )
    value = np.where(np.isfinite(votes.score), votes.score, votes.verdict)
    items = (
        pd.DataFrame({"item": votes.frame["item"], "value": value, "label": votes.label})
        .groupby("item", sort=True)
        .mean()
    )
    fifth = items["value"].rank(method="average", pct=True).mul(STRATA).apply(np.ceil)
    items["stratum"] = fifth.clip(1, STRATA).astype(int)
    before = float(items["label"].notna().mean())
    rng = np.random.default_rng(seed)
    open_items = items[items["label"].isna()]
    groups = items.groupby("stratum")["label"]
    share = (groups.sum() + 1) / (groups.count() + 2)
    sizes = open_items.groupby("stratum")["value"].size()
    want = ((share * (1 - share)).pow(0.5) * sizes).dropna()
    ends = (want / want.sum() * count).cumsum().round()  # so that the counts add up
    counts = ends.diff().fillna(ends).clip(lower=1).clip(upper=sizes).astype(int)
    drawn = [items[items["label"].notna()]]
    for stratum, part in open_items.groupby("stratum"):
        rows = rng.choice(len(part), int(counts[stratum]), replace=False)
        drawn.append(part.iloc[np.sort(rows)])
    rate = (counts / sizes).reindex(items["stratum"].unique(), fill_value=0.0)
    result = pd.concat(drawn).reset_index()
    result["probability"] = before + (1 - before) * result["stratum"].map(rate)
    return result[["item", "label", "probability", "stratum"]]
