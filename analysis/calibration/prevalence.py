"""What labels of some items and verdicts on all of them say of all, and what to label next."""

import numpy as np
import pandas as pd

from bon.analysis.calibration.labelled import Labelled
from bon.analysis.calibration.probabilities import cross_fitted
from bon.analysis.estimators.resampling import kish, proportion, share_of
from bon.analysis.results import Estimate
from bon.analysis.results.calibration import LabelsNeeded, Prevalence, VerdictAccuracy
from bon.choosing.opinion import Floats
from bon.core.errors import BonError

WIDTHS = (0.1, 0.05, 0.025)
STRATA = 5


def prevalence(votes: Labelled, level: float) -> Prevalence | None:
    """Return the share of right items among all.

    None where every item is labelled, or labels are of fewer than three items or two clusters.

    Power-tuned prediction-powered inference (Angelopoulos et al. 2023): λ times the mean prediction
    over all items plus the mean of label − λ · prediction over labelled ones, weighted by inverse
    probability of being labelled. Labelled items are among all, so λ is the slope of labels on
    predictions. Predictions are cross-fitted probabilities, or verdicts without scores. The
    interval is that of the population behind the items (`proportion`); its variance sums both
    means' influence over clusters.
    """
    label, prediction, cluster, weight = _by_item(votes)
    known = np.isfinite(label)
    n, total = int(known.sum()), len(label)
    clusters = len(np.unique(cluster[known]))
    if n == total or n < 3 or clusters < 2:
        return None
    judged = _by_item(votes, verdicts=True)[1]
    w = weight[known] / weight[known].sum()
    y, f = label[known], prediction[known]
    spread = prediction.var(ddof=1)
    covariance = float(w @ ((y - w @ y) * (f - w @ f)))
    tuned = float(np.clip(covariance / spread, 0, 1)) if spread > 0 else 0.0
    sizes = _sums(cluster[known], w)
    labelled = share_of(_sums(cluster[known], w * y), sizes, n, level, "labels")
    rest = y - tuned * f
    value = float(np.clip(tuned * prediction.mean() + w @ rest, 0, 1))
    parts = tuned * (prediction - prediction.mean()) / total
    parts[known] += w * (rest - w @ rest)
    influence = _sums(cluster, parts)
    found = proportion(
        value, float(influence @ influence), n, kish(sizes), level, "prediction-powered", total
    )
    alone, both = ((e.high or 0) - (e.low or 0) for e in (labelled, found))
    return Prevalence(
        num_items=total,
        judged=float(judged.mean()),
        labelled=labelled,
        estimate=found,
        worth=round(n * (alone / max(both, 1e-9)) ** 2),
    )


def _by_item(votes: Labelled, verdicts: bool = False) -> tuple[Floats, Floats, Floats, Floats]:
    """Return label, mean prediction, cluster and weight by item."""
    prediction = np.where(votes.unparsed, 0.5, votes.verdict)
    if not verdicts and np.isfinite(votes.score).any() and votes.scored.any():
        fitted = cross_fitted(votes, "platt")
        prediction = np.where(np.isfinite(fitted), fitted, prediction)
    frame = pd.DataFrame(
        {
            "item": votes.frame["item"],
            "label": votes.label,
            "prediction": prediction,
            "cluster": votes.cluster,
            "weight": 1 / votes.frame["probability"].fillna(1.0).to_numpy(dtype=float),
        }
    )
    items = frame.groupby("item", sort=False).mean()
    return tuple(items[name].to_numpy(dtype=float) for name in items.columns)  # type: ignore[return-value]


def _sums(cluster: Floats, values: Floats) -> Floats:
    """Return the sum of the values in each cluster."""
    return np.bincount(pd.factorize(cluster)[0], weights=values).astype(float)


def labels_needed(overall: VerdictAccuracy, num_labels: int) -> tuple[LabelsNeeded, ...]:
    """Return the number of labels for intervals of `WIDTHS`, as their width falls with √n."""

    def needed(name: str, width: float) -> int:
        metric: Estimate = getattr(overall, name)
        if metric.low is None or metric.high is None:
            return 0
        return max(int(np.ceil(num_labels * ((metric.high - metric.low) / 2 / width) ** 2)), 1)

    return tuple(
        LabelsNeeded(width=w, accuracy=needed("accuracy", w), kappa=needed("kappa", w))
        for w in WIDTHS
    )


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
