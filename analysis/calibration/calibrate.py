"""Rewarders against labels: everything that `bon calibrate` says."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from bon.analysis.calibration import verdict_accuracy
from bon.analysis.calibration.agreement import MISSING, agreement
from bon.analysis.calibration.labelled import Labelled, by_rewarder
from bon.analysis.calibration.roc import auc
from bon.analysis.decision.gate import against
from bon.analysis.estimators.resampling import draw
from bon.analysis.results import Estimate, Options
from bon.analysis.results.calibration import (
    Calibration,
    Metric,
    People,
    Requirement,
    RewarderCalibration,
)
from bon.analysis.results.phrasing import bounded, percent, share
from bon.core.errors import BonError

FEW = 30
"""Fewer labels of either kind are named in a warning."""


def calibrate(
    frame: pd.DataFrame,
    options: Options,
    *,
    labels: str,
    threshold: float | None = None,
    people: People | None = None,
    left_out: str = "",
) -> Calibration:
    """Compare the verdicts of every rewarder with labels; BonError if no item has one.

    Args:
        frame: one row per vote, columns `bon.analysis.calibration.labelled.COLUMNS`.
        options: level, draws and seed.
        labels: where the labels come from, for the reader.
        threshold: of scores; see `by_rewarder`.
        people: agreement of those who labelled.
        left_out: what was not judged because of its label, in words.
    """
    if not frame["label"].notna().any():
        raise BonError("no judged item has a label", "see the columns in docs/calibrating.md")
    rows = [_rewarder(v, options) for v in by_rewarder(frame, threshold) if v.known.any()]
    return Calibration(
        level=options.level,
        labels=labels,
        rewarders=tuple(rows),
        people=people,
        left_out=left_out,
    )


def _rewarder(votes: Labelled, options: Options) -> RewarderCalibration:
    level, known = options.level, votes.known
    draws = votes.draws(options.seed, options.draws)
    overall = verdict_accuracy.verdict_accuracy(votes, known, draws, level)
    categories = votes.frame["category"].fillna("").astype(str).to_numpy()
    cost = votes.frame["cost"].to_numpy(dtype=float)
    correct = (votes.verdict == votes.label)[known].sum()
    paid = known & np.isfinite(cost)
    name, kind = str(votes.frame["rewarder"].iloc[0]), str(votes.frame["kind"].iloc[0])
    return RewarderCalibration(
        rewarder=name,
        kind="pairs" if kind == "pairs" else "answers",
        threshold=votes.threshold,
        cross_fitted=votes.cross_fitted,
        overall=overall,
        categories=tuple(
            verdict_accuracy.verdict_accuracy(votes, categories == c, draws, level, c)
            for c in sorted(set(categories[known]) - {""})
        ),
        auc=auc(votes, level),
        lean=verdict_accuracy.lean(votes, draws, level),
        length_bias=verdict_accuracy.length_bias(votes, draws, level),
        biases=verdict_accuracy.feature_biases(votes, draws, level),
        self_consistency=verdict_accuracy.self_consistency(votes, level),
        cost_per_correct=float(cost[paid].sum() / correct) if paid.any() and correct else None,
        sentence=(
            f"{name} agrees with {share(overall.accuracy)} of the labels, "
            f"κ {bounded(overall.kappa)}: it accepts {share(overall.tpr)} of what is right and "
            f"rejects {share(overall.tnr)} of what is wrong"
            if kind == "answers"
            else f"{name} prefers the better response in {share(overall.accuracy)} of the pairs"
        ),
        warnings=tuple(_warnings(votes, overall.base_rate)),
    )


def _warnings(votes: Labelled, base_rate: Estimate) -> list[str]:
    lines = []
    for value, word in ((1, "right"), (0, "wrong")):
        count = votes.num_items(votes.label == value)
        if count < FEW:
            lines.append(f"only {count} items are labelled {word}: intervals are rough")
    if votes.cross_fitted:
        lines.append(
            "scores have no natural threshold: it was chosen on other items than it judges"
        )
    known = votes.verdict[votes.known & ~votes.unparsed]
    if votes.threshold is not None and len(known) and known.min() == known.max():
        lines.append(
            f"all scores lie on one side of {votes.threshold:g}: --threshold sets another where "
            "they are no probabilities"
        )
    right = base_rate.value or 0
    if max(right, 1 - right) > 0.8:
        lines.append(
            f"{percent(max(right, 1 - right))} of the labels are equal: "
            "read kappa and both rates, not the accuracy"
        )
    return lines


def agreement_of(
    labels: pd.DataFrame, options: Options
) -> tuple["pd.Series[float]", People | None]:
    """Return the consensus by item (NaN where tied), and the agreement of two or more annotators.

    `labels`: columns item, label (0 or 1) and annotator.
    """
    table = labels.pivot_table(index="item", columns="annotator", values="label", aggfunc="last")
    mean = table.mean(axis=1)
    consensus = mean.round().where(mean != 0.5)
    if table.shape[1] < 2:
        return consensus, None
    ratings = table.fillna(MISSING).to_numpy(dtype=np.int64)
    draws = draw(len(table), options.draws, options.seed, "annotators")
    equal, alpha = agreement(ratings, draws, options.level)
    return consensus, People(
        num_annotators=table.shape[1], num_items=equal.n, agreement=equal, alpha=alpha
    )


def requirements(calibration: Calibration, minima: dict[Metric, float]) -> tuple[Requirement, ...]:
    """Test metrics against minima: go if the interval lies above, no-go if below."""
    return tuple(
        _requirement(row, metric, minimum)
        for row in calibration.rewarders
        for metric, minimum in minima.items()
    )


def _requirement(row: RewarderCalibration, metric: Metric, minimum: float) -> Requirement:
    value: Estimate = row.auc if metric == "auc" else getattr(row.overall, metric)
    return Requirement(
        rewarder=row.rewarder,
        metric=metric,
        minimum=minimum,
        value=value,
        answer=against(value, minimum),
    )


def metrics(names: Sequence[str]) -> dict[Metric, float]:
    """Parse METRIC=VALUE texts; BonError for another metric or no number in [0, 1]."""
    known: tuple[Metric, ...] = ("accuracy", "tpr", "tnr", "precision", "npv", "kappa", "auc")
    minima: dict[Metric, float] = {}
    for text in names:
        name, _, number = text.partition("=")
        metric = next((m for m in known if m == name.strip()), None)
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if metric is None or not 0 <= value <= 1:
            raise BonError(f"--min {text!r} is no minimum", f"write one of {', '.join(known)} =.8")
        minima[metric] = value
    return minima
