"""Regret of choosing the rewarder by the benchmark.

The highest of several measured accuracies is too high, having been selected, so the loss is that of
true accuracies given the measured ones: around a line in the benchmark's score they are normal, and
measured with the errors of the draws. Their standard deviation is uniform on a grid, the line is
flat (Bayesian small-area estimation: Fay and Herriot 1979, JASA 74, 269-277). The loss is the mean
over draws of the posterior; its interval the shortest that holds the level, so it begins at zero
where the choice may be the best one. Coverage: docs/measurements/validity.md. Results hold for
these rewarders.
"""

from collections.abc import Mapping
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from bon.analysis.correlation.paired_accuracies import Label, Measured
from bon.analysis.estimators.resampling import estimate
from bon.analysis.results import Decision, Estimate, Options, Shortlist
from bon.analysis.results.phrasing import lost, percent, share
from bon.analysis.verdict.posterior import DEVIATIONS, error_variance
from bon.analysis.verdict.verdict import FEWEST
from bon.choosing.opinion import Floats, Ints

SIZES = (1, 2, 3)
MIN_QUESTIONS = 4
DRAWS = 2000
TIED_LISTS = 200  # shortlists that are tried where scores tie at the end of one
STILL = 1e-9  # scores that differ by less tie
LEAST = 1e-4  # standard deviation of true accuracies, in units of which its prior is stated


def decide(
    label: Label, m: Measured, options: Options, free: Mapping[str, float] | None = None
) -> Decision | None:
    """Evaluate choosing by one axis; None without a choice or without anything to resample.

    `free`: accuracy of alternatives that need no rewarder, by name.
    """
    m = m.keep(np.argsort(m.names)).complete()  # no order of the rewarders changes a draw
    r, draws = len(m.names), m.y_draws
    if draws is None or r < 2 or m.y_estimates[0].n < MIN_QUESTIONS:
        return None
    draws = draws[:, np.isfinite(draws).all(axis=0)]
    if draws.shape[1] < 2:
        return None
    true = np.clip(true_accuracies(m.x, m.y, draws, options.seed), 0, 1)
    best, n = true.max(axis=0), m.y_estimates[0].n
    lists = []
    for size in (k for k in SIZES if k < r):
        losses = np.concatenate([best - true[c].max(axis=0) for c in shortlists(m.x, size)])
        lists.append(
            Shortlist(
                size=size,
                rewarders=tuple(m.names[i] for i in np.argsort(-m.x, kind="stable")[:size]),
                loss=loss_from(losses, n, options.level),
                holds_best=float((losses <= 0).mean()),
                by_chance=size / r,
            )
        )
    blind = loss_from(best - true.mean(axis=0), n, options.level)
    picks = np.flatnonzero(m.x >= m.x.max() - STILL)
    top = np.flatnonzero(m.y >= m.y.max() - STILL)
    picked = _accuracy(m, picks, options.level)
    highest = "which is the highest measured"
    if not set(picks) & set(top):
        highest = f"the highest measured is {share(m.y_estimates[int(top[0])])}"
    instead, accuracy = max((free or {"": 0.0}).items(), key=lambda item: item[1])
    better = f" {instead} gives {percent(accuracy)}, more than the choice, at no cost."
    return Decision(
        **label.scope,
        picks=tuple(m.names[i] for i in picks),
        picked=picked,
        best=tuple(m.names[i] for i in top),
        blind=blind,
        shortlists=tuple(lists),
        sentence=(
            f"Choosing by {label.benchmark or 'the benchmark'} gives {share(picked)} on "
            f"{label.policy}, {highest}. Allowing for chance in what is measured, the choice loses "
            f"{lost(lists[0].loss)} and a random rewarder {lost(blind)}."
            f"{better if accuracy > (picked.value or 0.0) else ''}"
        ),
    )


def true_accuracies(x: Floats, y: Floats, draws: NDArray[np.floating], seed: int) -> Floats:
    """Draw (R, DRAWS) true accuracies, given the measured ones and their bootstrap draws (R, B).

    A draw of true accuracies and of errors is corrected by what the measured ones add to them
    (Matheron's rule).
    """
    r, rng = len(y), np.random.default_rng([seed, len(y), 19])
    errors = np.asarray(draws, dtype=float) - y[:, None]
    covariance = np.atleast_2d(np.cov(errors))
    design = np.ones((r, 1))
    if r >= FEWEST and np.ptp(x) > STILL:
        design = np.column_stack([design, x - x.mean()])
    unit = max(float(y.std(ddof=1)), np.sqrt(max(error_variance(covariance), LEAST**2)))
    logs, operators = [], []
    for deviation in unit * DEVIATIONS:
        total = covariance + deviation**2 * np.eye(r)
        weighted = np.linalg.solve(total, design).T
        information = weighted @ design
        line = np.linalg.solve(information, weighted)
        precision = np.linalg.inv(total) - weighted.T @ line
        sizes = np.linalg.slogdet(total)[1] + np.linalg.slogdet(information)[1]
        logs.append(-0.5 * (sizes + y @ precision @ y))
        operators.append(design @ line + deviation**2 * precision)
    weights = np.cumsum(np.exp(np.array(logs) - max(logs)))
    places = np.searchsorted(weights / weights[-1], (np.arange(DRAWS) + 0.5) / DRAWS)
    true: Floats = unit * DEVIATIONS[places] * rng.normal(size=(r, DRAWS))
    error = errors[:, rng.integers(errors.shape[1], size=DRAWS)]
    for place in np.unique(places):
        of = places == place
        true[:, of] += operators[place] @ (y[:, None] - true[:, of] - error[:, of])
    return true


def shortlists(x: Floats, size: int) -> list[Ints]:
    """List the sets of `size` rewarders with the highest scores, up to TIED_LISTS with ties."""
    edge = np.sort(x)[-size]
    sure = np.flatnonzero(x > edge + STILL)
    tied = np.flatnonzero(np.abs(x - edge) <= STILL)
    rest = combinations(tied.tolist(), size - len(sure))
    return [np.array([*sure, *part], dtype=np.int64) for part in islice(rest, TIED_LISTS)]


def loss_from(draws: Floats, n: int, level: float) -> Estimate:
    """Return the mean of draws of a loss with the shortest interval that holds the level."""
    ordered = np.sort(draws)
    inside = int(np.ceil(level * len(ordered)))
    first = int(np.argmin(ordered[inside - 1 :] - ordered[: len(ordered) - inside + 1]))
    bounds = ordered[first], ordered[first + inside - 1]
    return estimate(draws.mean(), *bounds, n, "posterior")


def _accuracy(m: Measured, rows: Ints, level: float) -> Estimate:
    """Return the accuracy of one rewarder, or the mean of several that tie."""
    if len(rows) == 1:
        return m.y_estimates[int(rows[0])]
    assert m.y_draws is not None
    tail = (1 - level) / 2
    low, high = np.nanquantile(m.y_draws[rows].mean(axis=0), [tail, 1 - tail])
    return estimate(m.y[rows].mean(), low, high, m.y_estimates[0].n, "questions")
