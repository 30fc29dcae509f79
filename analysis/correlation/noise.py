"""Noise of both axes: reliability, agreement on pairs of rewarders."""

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bon.analysis.correlation.paired_accuracies import (
    MIN_REWARDERS,
    Measured,
    difference_errors,
    rewarder_draws,
)
from bon.analysis.estimators import resampling
from bon.analysis.estimators.resampling import estimate, nothing
from bon.analysis.results import Estimate, Options, PairAgreement, Reliability
from bon.choosing.opinion import Floats, Ints

LOW_CEILING = 0.2  # below this there is too little signal to correct r for noise


def reliability(m: Measured, pearson: Estimate, options: Options) -> Reliability:
    """Estimate the reliability of both axes from split halves, and correct r for it.

    The halves' correlation is stepped up to full length (Spearman and Brown); intervals resample
    rewarders. The corrected r has the interval of `pearson` over the ceiling, taken as known.
    """
    assert m.x_halves is not None
    assert m.y_halves is not None
    r = len(m.names)
    if r < MIN_REWARDERS:
        return Reliability(x=nothing(r), y=nothing(r), ceiling=nothing(r), disattenuated=nothing(r))
    x, y = _stepped_up(m.x_halves), _stepped_up(m.y_halves)
    rows = rewarder_draws(r, min(options.draws, 1000), options.seed)
    x_draws, y_draws = (_stepped_up(halves[:, :, :10], rows) for halves in (m.x_halves, m.y_halves))

    def bounded(value: Floats, draws: Floats) -> Estimate:
        low, high = resampling.quantiles(draws, options.level)
        return estimate(float(value), low[0], high[0], r, "rewarders")

    ceiling, ceilings = (
        np.sqrt(np.clip(a, 0, 1) * np.clip(b, 0, 1)) for a, b in ((x, y), (x_draws, y_draws))
    )
    return Reliability(
        x=bounded(x, x_draws),
        y=bounded(y, y_draws),
        ceiling=bounded(ceiling, ceilings),
        disattenuated=_corrected(pearson, float(ceiling)),
    )


def _corrected(pearson: Estimate, ceiling: float) -> Estimate:
    if pearson.value is None or not ceiling > LOW_CEILING:  # also if the ceiling is NaN
        return nothing(pearson.n)
    value, low, high = (
        None if v is None else float(np.clip(v / ceiling, -1, 1))
        for v in (pearson.value, pearson.low, pearson.high)
    )
    return estimate(value, low, high, pearson.n, pearson.method)


def _stepped_up(halves: Floats, rows: Ints | None = None) -> Floats:
    """Average the halves' correlation over splits and step it up: a number, or one per draw (B)."""
    a, b = (half.T for half in halves)  # (S, R) each
    if rows is not None:
        a, b = a[:, rows], b[:, rows]  # (S, B, R)
    r = resampling.pearson_rows(a, b)
    known = np.isfinite(r)
    mean = np.where(known, r, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    mean = np.where(known.any(axis=0), mean, np.nan)
    return np.asarray(2 * mean / (1 + np.maximum(mean, -0.5)), dtype=float)


def agreement(m: Measured, options: Options) -> PairAgreement:
    """Compare the order of every two rewarders on both axes; intervals resample rewarders.

    An axis distinguishes two rewarders if their paired difference exceeds z standard errors;
    without draws it distinguishes none.
    """
    r = len(m.names)
    dx, dy = m.x[:, None] - m.x[None, :], m.y[:, None] - m.y[None, :]
    agree = (1 + np.sign(dx) * np.sign(dy)) / 2
    different = ~np.eye(r, dtype=bool)
    rows = rewarder_draws(r, options.draws, options.seed)
    cells = rows + r * np.arange(options.draws)[:, None]
    weights = np.bincount(cells.ravel(), minlength=options.draws * r).reshape(-1, r).astype(float)

    def drawn(pairs: Floats) -> Floats:
        return np.asarray(np.einsum("br,br->b", weights @ pairs, weights))

    everyone = drawn(different.astype(float))

    def mean(values: Floats, over: NDArray[np.bool_]) -> Estimate:
        if not over.any():
            return nothing()
        size = everyone if over is different else drawn(over.astype(float))
        with np.errstate(invalid="ignore", divide="ignore"):
            low, high = resampling.quantiles(drawn(values * over) / size, options.level)
        value, pairs = values[over].mean(), int(over.sum()) // 2
        if low[0] == high[0] == value and value in (0.0, 1.0):  # pairs share their rewarders
            return resampling.sure(value, int(over.any(axis=1).sum()), pairs, options.level)
        return estimate(value, low[0], high[0], pairs, "rewarders")

    none = nothing(r)
    if m.x_draws is None or m.y_draws is None:
        return PairAgreement(
            num_pairs=r * (r - 1) // 2, agreement=mean(agree, different), num_separable=0,
            agreement_separable=none,
        )  # fmt: skip
    z = float(special.ndtri((1 + options.level) / 2))
    sx, sy = difference_errors(m.x_draws), difference_errors(m.y_draws)
    x_separable, y_separable = ((np.abs(d) > z * s) & different for d, s in ((dx, sx), (dy, sy)))
    both = x_separable & y_separable
    return PairAgreement(
        num_pairs=r * (r - 1) // 2,
        agreement=mean(agree, different),
        num_separable=int(both.sum()) // 2,
        agreement_separable=mean(agree, both),
    )
