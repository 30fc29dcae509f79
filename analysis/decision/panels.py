"""Panels: the mean of the scores of the benchmark's best k, in units of each rewarder's spread.

Members are ordered by the benchmark alone. k is chosen on one half of the questions and measured on
the other, so the gain over the single pick is not flattered. Weights are not learned: on the
miniature a conditional logit of 14 rewarders scored .758 and their plain mean .765.
"""

from collections.abc import Sequence

import numpy as np

from bon.analysis.correlation.paired_accuracies import Label
from bon.analysis.data.arrays import Pool
from bon.analysis.estimators.replay import ensemble_opinion, panel_opinion
from bon.analysis.estimators.resampling import Draws, estimate, from_draws, quantiles
from bon.analysis.results import Estimate, Panels, PanelSize
from bon.analysis.results.phrasing import gained, plural
from bon.choosing.opinion import Floats, Opinion
from bon.choosing.rules import RULES

HALVES = 500
"""Random halves of the questions that the held-out gain averages."""
METHOD = "questions"


def panels(
    label: Label,
    ranked: Sequence[str],
    opinions: dict[str, Opinion],
    pool: Pool,
    draws: Draws,
    level: float,
) -> Panels | None:
    """Return the panels of the best k of a benchmark, among all candidates.

    Args:
        label: policy, benchmark and axis.
        ranked: rewarders, the benchmark's first one first.
        opinions: of the rewarders whose judgements are complete.
        pool: the policy's candidates.
        draws: of the pool's questions.
        level: of the intervals.

    Returns None with fewer than two complete rewarders.
    """
    names = [name for name in ranked if name in opinions]
    if len(names) < 2:
        return None
    members = [opinions[name] for name in names]
    single = np.stack([_value(m, "best_score", pool) for m in map(_alone, members)], axis=1)
    by_size, binary = single[:, :1], single[:, :1]
    for k in range(2, len(names) + 1):
        together, votes = panel_opinion(members[:k]), ensemble_opinion(members[:k], pool)
        by_size = np.column_stack([by_size, _value(together, "best_score", pool)])
        preferred = _value(votes, "round_robin", pool) if votes else np.full(len(single), np.nan)
        binary = np.column_stack([binary, preferred])
    accuracies = _estimates(by_size, draws, level, proportion=True)
    ensembles = _estimates(np.nan_to_num(binary), draws, level, proportion=True)
    gains = _estimates(by_size - by_size[:, :1], draws, level)
    chosen = int(np.argmax(by_size.mean(axis=0) > by_size.mean(axis=0).max() - 1e-12))
    held_out = _held_out(by_size, draws, level)
    matters = ~pool.constant
    wrong = 1 - single[matters, : max(chosen + 1, 2)]
    pairs = np.array([])
    if len(wrong) > 1:
        with np.errstate(invalid="ignore", divide="ignore"):  # who is never, or always, wrong
            pairs = np.atleast_2d(np.corrcoef(wrong.T))[np.triu_indices(wrong.shape[1], 1)]
    known = pairs[np.isfinite(pairs)]
    change = by_size[:, [chosen]] - by_size[:, :1]
    rescued, spoilt = _estimates(np.column_stack([change > 0.5, change < -0.5]), draws, level)
    return Panels(
        policy=label.policy,
        benchmark=label.benchmark,
        axis=label.axis,
        sizes=tuple(
            PanelSize(
                size=k + 1,
                added=names[k],
                alone=float(single[:, k].mean()),
                accuracy=accuracies[k],
                over_pick=gains[k],
                ensemble=ensembles[k] if np.isfinite(binary[:, k]).all() else None,
            )
            for k in range(len(names))
        ),
        size=chosen + 1,
        held_out=held_out,
        error_correlation=float(known.mean()) if len(known) else None,
        rescued=rescued,
        spoilt=spoilt,
        sentence=_sentence(names[0], chosen + 1, held_out),
    )


def _alone(opinion: Opinion) -> Opinion:
    return panel_opinion([opinion])


def _value(opinion: Opinion, rule: str, pool: Pool) -> Floats:
    """Return how right the choice among all candidates is (Q)."""
    chosen = RULES[rule].choose(opinion)
    value = (np.nan_to_num(chosen) * pool.correct).sum(axis=1)
    return np.where(pool.constant, pool.correct[:, 0], value)


def _estimates(
    values: Floats, draws: Draws, level: float, *, proportion: bool = False
) -> list[Estimate]:
    values = values.astype(float)
    means, drawn, n = values.mean(axis=0), draws.means(values), len(values)
    return from_draws(means, drawn, n, METHOD, level, proportion=proportion)


def _held_out(by_size: Floats, draws: Draws, level: float) -> Estimate:
    """Return the gain over the pick (k = 1) of the k that is best on the other half."""
    rng = np.random.default_rng(HALVES)
    counts = draws.counts.astype(float)
    every = np.ones((HALVES, len(by_size)))

    def gain(weights: Floats) -> Floats:
        total = np.zeros(len(weights))
        half = rng.random(weights.shape) < 0.5
        for here, there in ((half, ~half), (~half, half)):
            size = np.argmax((weights * here) @ by_size, axis=1)
            over = (weights * there) @ (by_size - by_size[:, :1])
            seen = np.maximum((weights * there).sum(axis=1), 1)
            total += over[np.arange(len(size)), size] / seen / 2
        return total

    low, high = quantiles(gain(counts)[None], level, len(by_size))
    return estimate(gain(every).mean(), low[0], high[0], len(by_size), "halves of the questions")


def _sentence(pick: str, size: int, held_out: Estimate) -> str:
    if size == 1:
        return f"No panel of the benchmark's best is better than {pick} alone."
    text = (
        f"A panel of the benchmark's best ({size} here, the number chosen on other questions) "
        f"gains {gained(held_out)} over {pick} alone"
    )
    if held_out.low is not None and held_out.low > 0:
        return f"{text}."
    return f"{text}: insurance against a wrong pick for {plural(size, 'judge')}, no certain gain."
