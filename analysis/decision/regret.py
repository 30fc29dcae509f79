"""Regret of choosing the rewarder by the benchmark.

The highest of several measured accuracies is too high, having been selected. Therefore

- the loss is cross-fitted: the best rewarder is selected on one half of the questions and measured
  on the other, over many random halves in both directions. In expectation this never exceeds
  the true loss;
- its interval is that of multiple comparisons with the best (Hsu 1984, Annals of Statistics 12,
  1136-1144) with standard errors and critical values from the draws. It is never below zero.

Pairs enter through how often the choice contains the best rewarder. Results hold for these
rewarders.
"""

from collections.abc import Mapping
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from bon.analysis.correlation.paired_accuracies import Label, Measured
from bon.analysis.estimators.resampling import estimate
from bon.analysis.results import Decision, Estimate, Options, Shortlist
from bon.analysis.results.phrasing import lost, percent, share
from bon.choosing.opinion import Floats, Ints

SIZES = (1, 2, 3)
MIN_QUESTIONS = 4  # two on each half
TIED_LISTS = 200  # shortlists that are tried where scores tie at the end of one
STILL = 1e-9  # a difference whose draws spread less than this does not vary


def decide(
    label: Label, m: Measured, options: Options, free: Mapping[str, float] | None = None
) -> Decision | None:
    """Evaluate choosing by one axis; None without a choice or without anything to resample.

    `free`: accuracy of alternatives that need no rewarder, by name.
    """
    m = m.complete()
    r, draws, halves = len(m.names), m.y_draws, m.y_halves
    if draws is None or halves is None or not can_lose(m):
        return None
    finds = _finds_best(m, options.seed)
    lists = []
    for size in (k for k in SIZES if k < r):
        sets = shortlists(m.x, size)
        value = float(np.mean([_gain_over(halves, halves[:, chosen]) for chosen in sets]))
        bounds = [_bounds(m.y, draws, np.eye(r)[chosen], options.level) for chosen in sets]
        low, high = min(b[0] for b in bounds), max(b[1] for b in bounds)
        lists.append(
            Shortlist(
                size=size,
                rewarders=tuple(m.names[i] for i in np.argsort(-m.x, kind="stable")[:size]),
                loss=_loss(value, low, high, m),
                holds_best=finds[size - 1],
                by_chance=size / r,
            )
        )
    blind = loss_of(m, np.full(r, 1 / r), options.level)
    picks = np.flatnonzero(m.x >= m.x.max() - STILL)
    top = np.flatnonzero(m.y >= m.y.max() - STILL)
    picked = _accuracy(m, picks, options.level)
    loss = lists[0].loss
    available = (picked.value or 0.0) + (loss.value or 0.0)
    instead, accuracy = max((free or {"": 0.0}).items(), key=lambda item: item[1])
    better = f" {instead} gives {percent(accuracy)}, more than the choice, at no cost."
    return Decision(
        **label.scope,
        picks=tuple(m.names[i] for i in picks),
        picked=picked,
        best=tuple(m.names[i] for i in top),
        available=available,
        blind=blind,
        shortlists=tuple(lists),
        sentence=(
            f"Choosing by {label.benchmark or 'the benchmark'} gives {share(picked)} on "
            f"{label.policy}; the best rewarder gives {share(m.y_estimates[int(top[0])])} as "
            f"measured, about {percent(available)} after correcting for picking the winner. "
            f"The choice loses {lost(loss)}; a random rewarder loses {lost(blind)}."
            f"{better if accuracy > (picked.value or 0.0) else ''}"
        ),
    )


def can_lose(m: Measured) -> bool:
    """Return whether there is a choice, and questions to resample."""
    measured = m.y_draws is not None and m.y_halves is not None
    return measured and len(m.names) >= 2 and m.y_estimates[0].n >= MIN_QUESTIONS


def loss_of(m: Measured, chances: Floats, level: float) -> Estimate:
    """Return the expected loss of drawing the rewarder with these probabilities (R)."""
    assert m.y_draws is not None
    assert m.y_halves is not None
    own = np.einsum("r,hrs->hs", chances, m.y_halves)[:, None]
    return _loss(_gain_over(m.y_halves, own), *_bounds(m.y, m.y_draws, chances[None], level), m)


def shortlists(x: Floats, size: int) -> list[Ints]:
    """List the sets of `size` rewarders with the highest scores, up to TIED_LISTS with ties."""
    edge = np.sort(x)[-size]
    sure = np.flatnonzero(x > edge + STILL)
    tied = np.flatnonzero(np.abs(x - edge) <= STILL)
    rest = combinations(tied.tolist(), size - len(sure))
    return [np.array([*sure, *part], dtype=np.int64) for part in islice(rest, TIED_LISTS)]


def _gain_over(halves: Floats, own: Floats) -> float:
    """Average over splits how far the best of all lies above the best of `own`, cross-fitted.

    `halves` (2, R, S), `own` (2, K, S): accuracies on halves and on their complements.
    """

    def crossed(selection: Floats, measurement: Floats) -> Floats:
        best = selection >= selection.max(axis=0) - STILL
        return np.asarray((best * measurement).sum(axis=0) / best.sum(axis=0))

    best_of_all, best_of_own = (
        float(np.mean([crossed(*pair) for pair in (part, part[::-1])])) for part in (halves, own)
    )
    return best_of_all - best_of_own


def _bounds(
    y: Floats, draws: NDArray[np.floating], own: Floats, level: float
) -> tuple[float, float]:
    """Bound the maximum of y minus the maximum over `own` (K, R), rows of weights on y (R).

    With d[j, i] the difference of rewarder j and choice i, the loss is max_j min_i d. The lower
    bound lets any j be the best one, for each i; the upper any i the best choice, for each j.
    """
    drawn = np.asarray(draws, dtype=float)
    drawn = drawn[:, np.isfinite(drawn).all(axis=0)]
    chosen, tail = own @ drawn, (1 - level) / 2
    difference = y[:, None] - (own @ y)[None, :]
    spread = np.empty(difference.shape)
    above = np.full((len(own), drawn.shape[1]), -np.inf)
    below = np.full((len(y), drawn.shape[1]), -np.inf)
    for i in range(len(own)):  # one choice at a time: (R, B) is large enough
        moved = drawn - chosen[i] - difference[:, [i]]
        spread[:, i] = np.sqrt((moved**2).mean(axis=1))
        score = moved / np.where(spread[:, [i]] > STILL, spread[:, [i]], np.inf)
        above[i] = score.max(axis=0)
        below = np.maximum(below, -score)
    most = np.quantile(above, 1 - tail, axis=1)[None, :]
    least = np.quantile(below, 1 - tail, axis=1)[:, None]
    low = (difference - most * spread).min(axis=1).max()
    high = (difference + least * spread).min(axis=1).max()
    return max(float(low), 0.0), min(max(float(high), 0.0), 1.0)


def _finds_best(m: Measured, seed: int) -> list[float]:
    """Return the share of draws whose k highest scores hold the highest accuracy, k = 1 … R.

    Ties are broken at random.
    """
    assert m.x_draws is not None
    assert m.y_draws is not None
    usable = np.isfinite(m.x_draws).all(axis=0) & np.isfinite(m.y_draws).all(axis=0)
    x, y = (np.asarray(d[:, usable], dtype=float) for d in (m.x_draws, m.y_draws))
    rng = np.random.default_rng([seed, len(m.names), 19])
    best = np.argmax(y + STILL * rng.random(y.shape), axis=0)
    x = x + STILL * rng.random(x.shape)
    rank = (x > np.take_along_axis(x, best[None, :], axis=0)).sum(axis=0)
    return [float((rank < k).mean()) for k in range(1, len(m.names) + 1)]


def _loss(value: float, low: float, high: float, m: Measured) -> Estimate:
    """Return a loss, which is never below zero, though its cross-fitted value may be."""
    return estimate(max(value, 0.0), low, high, m.y_estimates[0].n, "best of all")


def _accuracy(m: Measured, rows: Ints, level: float) -> Estimate:
    """Return the accuracy of one rewarder, or the mean of several that tie."""
    if len(rows) == 1:
        return m.y_estimates[int(rows[0])]
    assert m.y_draws is not None
    tail = (1 - level) / 2
    low, high = np.nanquantile(m.y_draws[rows].mean(axis=0), [tail, 1 - tail])
    return estimate(m.y[rows].mean(), low, high, m.y_estimates[0].n, "questions")
