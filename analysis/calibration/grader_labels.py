"""Accuracies under a grader, corrected by labels of some of the answers that it graded.

Prediction-powered inference (Angelopoulos et al. 2023) with known probabilities p of being labelled
(Horvitz and Thompson 1952): the credit of a labelled answer becomes the grader's plus (label −
grader's) / p, whose mean is that of the labels. Coverage: tools/validity/grader_labels.py.
"""

from collections.abc import Mapping

import numpy as np
from scipy import special

from bon.analysis.data.arrays import Pool
from bon.analysis.estimators import resampling
from bon.analysis.estimators.picks import Picks
from bon.analysis.results import Options
from bon.analysis.results.calibration import CorrectedAccuracy, GraderCheck
from bon.core.errors import BonError
from bon.core.records import RIGHT_FROM


def check_grader(
    pools: Mapping[str, Pool],
    picks: Picks,
    labels: Mapping[str, float],
    probabilities: Mapping[str, float],
    options: Options,
) -> GraderCheck:
    """Measure a grader's errors, and correct the accuracies of all choices for them.

    labels: 0 to 1 by "question/text key"; probabilities: of being labelled, by the same; missing
    ones are the share of the answers that is labelled. A question that was not judged counts as a
    random choice. Few labels show no rare error: the corrected interval allows for one more.
    """
    keys: dict[str, list[str]] = {}
    for name, pool in pools.items():
        rows = zip(pool.candidates.items, pool.candidates.keys, strict=True)
        keys[name] = [f"{question}/{key}" for question, own in rows for key in own]
    every = {item for items in keys.values() for item in items}
    labelled = every & labels.keys()
    if not labelled:
        raise BonError("no label is about an answer of this run", "items are QUESTION/TEXT KEY")
    drawn, z = len(labelled) / len(every), special.ndtri((1 + options.level) / 2)
    accuracies, counts = [], []
    for name, pool in pools.items():
        graded = pool.correct
        label = np.array([labels.get(i, np.nan) for i in keys[name]]).reshape(graded.shape)
        chance = np.array([probabilities.get(i, drawn) for i in keys[name]]).reshape(graded.shape)
        known = np.isfinite(label)
        corrected = graded + np.where(known, (label - graded) / chance, 0.0)
        draws = resampling.draw(len(graded), options.draws, options.seed, f"labels {name}")
        for judge in ("pass@1", *dict.fromkeys(j for policy, _, j in picks if policy == name)):
            chosen = [picks.get((name, q, judge)) for q in pool.candidates.items]
            pairs = zip(pool.indexes, chosen, strict=True)
            weight = np.array([np.isin(row, own or row) for row, own in pairs], dtype=float)
            weight /= np.maximum(weight.sum(axis=1, keepdims=True), 1)
            values = np.stack([(weight * c).sum(axis=1) for c in (graded, corrected)], axis=1)
            n, mean = len(values), values.mean(axis=0)
            more = z / (1 + resampling.kish(weight[known])) if weight[known].any() else z
            bounds = resampling.quantiles(draws.means(values), options.level, n)
            low, high = (np.hypot(end - mean, [0, more]) for end in bounds)
            ends = np.clip([mean, mean - low, mean + high], 0, 1).T
            two = [resampling.estimate(v, a, b, n, "questions") for v, a, b in ends]
            row = CorrectedAccuracy(policy=name, rewarder=judge, graded=two[0], corrected=two[1])
            accuracies.append(row)
        right, good = graded >= RIGHT_FROM, label >= RIGHT_FROM
        cells = (right & good, good, ~right & ~good, ~good)
        counts.append(np.stack([(known / chance * cell).sum(axis=1) for cell in cells], axis=1))
    found = np.concatenate(counts)
    draws = resampling.draw(len(found), options.draws, options.seed, "grader")
    rates = []
    for part in (found[:, :2], found[:, 2:]):
        ratio, n = resampling.first_by_second, int((part[:, 1] > 0).sum())
        rates.append(resampling.of_sums(part, ratio, draws, n, "questions", options.level))
    return GraderCheck(
        num_labelled=len(labelled),
        share_labelled=drawn,
        right_as_right=rates[0],
        wrong_as_wrong=rates[1],
        accuracies=tuple(accuracies),
    )
