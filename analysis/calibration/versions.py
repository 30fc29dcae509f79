"""Two versions of a rewarder on the same items, verdict by verdict."""

import numpy as np
import pandas as pd
from scipy import stats

from bon.analysis.calibration.labelled import Labelled
from bon.analysis.calibration.verdict_accuracy import clustered, kappa
from bon.analysis.estimators.resampling import draw, first_by_second, share_of
from bon.analysis.results.calibration import VersionDrift
from bon.analysis.results.phrasing import gained, percent, plural, probability
from bon.choosing.opinion import Floats

SHOWN = 50


def version_drift(
    before: Labelled, after: Labelled, level: float, seed: int, draws: int
) -> VersionDrift | None:
    """Compare the mean verdicts of the same items; None without an item in both."""
    old, new = (_items(votes) for votes in (before, after))
    both = old.add_suffix("_old").join(new.add_suffix("_new"), how="inner")
    if both.empty:
        return None
    a, b = (both[f"verdict_{side}"].to_numpy(dtype=float) for side in ("old", "new"))
    label = both["label_old"].fillna(both["label_new"]).to_numpy(dtype=float)
    cluster = pd.factorize(both["cluster_old"])[0]
    up, down = (a < 0.5) & (b > 0.5), (a > 0.5) & (b < 0.5)
    num = len(both)
    drawn = draw(int(cluster.max()) + 1, draws, seed, "versions")

    def sums(*columns: Floats) -> Floats:
        table = np.zeros((int(cluster.max()) + 1, len(columns)))
        np.add.at(table, cluster, np.stack(columns, axis=1))
        return table

    x, y, one = (np.asarray(v, dtype=np.float64) for v in (a > 0.5, b > 0.5, a >= 0))
    cells = sums(x * y, x * (1 - y), (1 - x) * y, (1 - x) * (1 - y))
    shift = np.nan_to_num(both["score_new"].to_numpy(float) - both["score_old"].to_numpy(float))
    has = both[["score_old", "score_new"]].notna().all(axis=1).to_numpy().astype(np.float64)
    known = np.isfinite(label).astype(float)
    right = np.where(known > 0, (2 * np.nan_to_num(label) - 1) * (b - a), 0.0)
    hits, sizes = sums(np.asarray(up | down, dtype=np.float64), one).T
    changed = share_of(hits, sizes, num, level)
    p = (
        float(stats.binomtest(int(up.sum()), int((up | down).sum())).pvalue)
        if (up | down).any()
        else 1.0
    )
    accuracy = clustered(sums(right, known), first_by_second, drawn, int(known.sum()), level)
    name = str(after.frame["rewarder"].iloc[0])
    verb = f"{percent(changed.value)} of {plural(num, 'verdict')} changed, " + (
        f"{int(up.sum())} to positive and {int(down.sum())} to negative ({probability(p)})"
    )
    effect = f"; accuracy changed by {gained(accuracy)}" if accuracy.value is not None else ""
    return VersionDrift(
        rewarder=name,
        num_items=num,
        changed=changed,
        to_positive=int(up.sum()),
        to_negative=int(down.sum()),
        p_value=p,
        kappa=kappa(cells, drawn, num, level),
        score_shift=clustered(sums(shift, has), first_by_second, drawn, int(has.sum()), level),
        accuracy=accuracy,
        items=tuple(both.index[up | down].astype(str)[:SHOWN]),
        sentence=f"{name}: {verb}{effect}",
    )


def _items(votes: Labelled) -> pd.DataFrame:
    frame = votes.frame.assign(verdict=np.where(votes.unparsed, 0.5, votes.verdict))
    columns = ["verdict", "score", "label"]
    items = frame.groupby("item")[columns].mean()
    return items.assign(cluster=frame.groupby("item")["cluster"].first())
