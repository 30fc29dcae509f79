"""Accuracies under a grader, corrected by labels of some of the answers that it graded.

Prediction-powered inference (Angelopoulos et al. 2023) with known probabilities p of being labelled
(Horvitz and Thompson 1952): the credit of a labelled answer becomes the grader's plus (label −
grader's) / p, whose mean is that of the labels, whatever the grader does. Accuracies are means of
it over questions, so the intervals resample questions; tools/validity/grader_labels.py covers them.
"""

from collections.abc import Collection, Iterator, Mapping

import numpy as np
from scipy import special

from bon.analysis.data.arrays import Pool
from bon.analysis.estimators.picks import Picks
from bon.analysis.estimators.resampling import Draws, draw, from_draws, kish, wilson
from bon.analysis.results import Estimate, Options
from bon.analysis.results.calibration import CorrectedAccuracy, GraderCheck
from bon.analysis.results.phrasing import percent, share
from bon.choosing.opinion import Bools, Floats
from bon.core.errors import BonError
from bon.core.records import RIGHT_FROM

RANDOM = "pass@1"


def check_grader(
    pools: Mapping[str, Pool],
    picks: Picks,
    labels: Mapping[str, float],
    probabilities: Mapping[str, float],
    options: Options,
    by_reader: Collection[str] = (),
) -> GraderCheck:
    """Measure a grader's errors, and correct the accuracies of all choices for them.

    labels: 0 to 1 by "question/text key"; probabilities: of being labelled, by the same; missing
    ones are the share of the answers that is labelled. by_reader: those that a model has read, by
    the same. A question that was not judged counts as a random choice.
    """
    grids = {name: _labelled(pool, labels) for name, pool in pools.items()}
    labelled = {item for pool in pools.values() for item in _items(pool) if item in labels}
    if not labelled:
        raise BonError("no label is about an answer of this run", "items are QUESTION/TEXT KEY")
    every = {item for pool in pools.values() for item in _items(pool)}
    drawn = len(labelled) / len(every)
    accuracies: list[CorrectedAccuracy] = []
    counts: list[Floats] = []
    for name, pool in pools.items():
        label, known = grids[name]
        chance = np.array([probabilities.get(i, drawn) for i in _items(pool)])
        chance = chance.reshape(label.shape)
        graded = pool.correct
        corrected = graded + np.where(known, (label - graded) / chance, 0.0)
        draws = draw(len(graded), options.draws, options.seed, f"labels {name}")
        for rewarder, weight in _choices(pool, picks):
            values = np.stack([(weight * credit).sum(axis=1) for credit in (graded, corrected)])
            own = weight[known]
            size = kish(own) if own.any() else 0.0  # labelled choices
            accuracies.append(_accuracy(name, rewarder, values.T, draws, options.level, size))
        weight = known / chance
        right, good = graded >= RIGHT_FROM, label >= RIGHT_FROM
        cells = (right & good, good, ~right & ~good, ~good)
        counts.append(np.stack([(weight * cell).sum(axis=1) for cell in cells], axis=1))
    rates = _rates(np.concatenate(counts), options)
    as_labelled: dict[str, bool] = {}
    for name, pool in pools.items():
        same = (pool.correct >= RIGHT_FROM) == (grids[name][0] >= RIGHT_FROM)
        as_labelled |= dict(zip(_items(pool), same.ravel().tolist(), strict=True))
    own_labels = [as_labelled[item] for item in labelled.intersection(by_reader)]
    read = wilson(sum(own_labels), len(own_labels), options.level) if by_reader else None
    gap = max(accuracies, key=lambda row: abs(row.difference.value or 0.0))
    return GraderCheck(
        num_labelled=len(labelled),
        share_labelled=drawn,
        right_as_right=rates[0],
        wrong_as_wrong=rates[1],
        accuracies=tuple(accuracies),
        by_reader=read,
        sentence=(
            f"Against {len(labelled)} labels the grader finds {share(rates[0])} of the right "
            f"answers right and {share(rates[1])} of the wrong ones wrong. The largest correction "
            f"is that of {gap.rewarder}: {percent(gap.graded.value)} becomes "
            f"{share(gap.corrected)}."
            + (f" Of {read.n} that a model has read, {share(read)} are graded so." if read else "")
        ),
    )


def _items(pool: Pool) -> list[str]:
    candidates = pool.candidates
    rows = zip(candidates.items, candidates.keys, strict=True)
    return [f"{question}/{key}" for question, keys in rows for key in keys]


def _labelled(pool: Pool, labels: Mapping[str, float]) -> tuple[Floats, Bools]:
    """Return the labels (Q, M), 0 where there is none, and which answers have one."""
    values = np.array([labels.get(item, np.nan) for item in _items(pool)])
    values = values.reshape(pool.correct.shape)
    return np.nan_to_num(values), np.isfinite(values)


def _choices(pool: Pool, picks: Picks) -> Iterator[tuple[str, Floats]]:
    """Yield pass@1 and each rewarder with the chance (Q, M) that it picks a candidate."""
    shape = pool.correct.shape
    yield RANDOM, np.full(shape, 1 / shape[1])
    for rewarder in dict.fromkeys(name for policy, _, name in picks if policy == pool.policy):
        picked = [picks.get((pool.policy, q, rewarder), ()) for q in pool.candidates.items]
        weight = np.array(
            [np.isin(row, chosen or row) for row, chosen in zip(pool.indexes, picked, strict=True)],
            dtype=float,
        )
        yield rewarder, weight / np.maximum(weight.sum(axis=1, keepdims=True), 1)


def _accuracy(
    policy: str, rewarder: str, values: Floats, draws: Draws, level: float, size: float
) -> CorrectedAccuracy:
    """Estimate both accuracies; `size`: labels of its choices.

    Few labels show no rare error: the corrected interval allows for one more among them.
    """
    both = np.column_stack([values, values[:, 1] - values[:, 0]])
    estimates = from_draws(
        both.mean(axis=0), draws.means(both), len(both), "questions", level, proportion=False
    )
    more = float(special.ndtri((1 + level) / 2)) / (size + 1)

    def wider(e: Estimate) -> Estimate:
        if e.value is None or e.low is None or e.high is None:
            return e
        low, high = (float(np.hypot(e.value - end, more)) for end in (e.low, e.high))
        return e.model_copy(update={"low": e.value - low, "high": e.value + high})

    graded, corrected, difference = estimates[0], wider(estimates[1]), wider(estimates[2])
    bounds = ("value", "low", "high")
    inside = {b: min(max(getattr(corrected, b), 0.0), 1.0) for b in bounds}
    return CorrectedAccuracy(
        policy=policy,
        rewarder=rewarder,
        graded=graded,
        corrected=corrected.model_copy(update=inside),
        difference=difference,
    )


def _rates(counts: Floats, options: Options) -> list[Estimate]:
    """Return the shares of right answers found right, and of wrong ones found wrong."""
    sums = draw(len(counts), options.draws, options.seed, "grader").sums(counts)
    estimates = []
    for hit, of in ((0, 1), (2, 3)):
        total = counts[:, of].sum()
        if not total:
            estimates.append(Estimate(value=None, method="none"))
            continue
        value = np.array([counts[:, hit].sum() / total])
        ratio = sums[[hit]] / np.where(sums[[of]] > 0, sums[[of]], np.nan)
        labelled = int((counts[:, of] > 0).sum())
        estimates += from_draws(value, ratio, labelled, "questions", options.level)
    return estimates
