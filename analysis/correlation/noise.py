"""How much of both axes is noise, and what remains: reliability, agreement, partial correlation."""

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bon.analysis.correlation.measured import (
    MIN_REWARDERS,
    Measured,
    difference_errors,
    rewarder_draws,
)
from bon.analysis.estimators import resampling
from bon.analysis.estimators.resampling import estimate, nothing
from bon.analysis.results import Estimate, Given, Options, PairAgreement, Partial, Reliability

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LOW_CEILING = 0.2  # below this there is too little signal to correct for


def reliability(m: Measured, pearson: Estimate, options: Options) -> Reliability:
    """Reliability of both axes by split halves, and what it does to r.

    The halves' correlation is stepped up (Spearman and Brown) to the full length; intervals
    resample rewarders, but for the corrected r: its interval is that of `pearson` over the
    ceiling, taken as known.
    """
    assert m.x_halves is not None
    assert m.y_halves is not None
    r = len(m.names)
    if r < MIN_REWARDERS:
        return Reliability(x=nothing(r), y=nothing(r), ceiling=nothing(r), disattenuated=nothing(r))
    value_x, value_y = float(_stepped_up(m.x_halves)), float(_stepped_up(m.y_halves))
    which = rewarder_draws(r, min(options.draws, 1000), options.seed)
    few = slice(0, 10)
    draws_x = _stepped_up(m.x_halves[:, :, few], which)
    draws_y = _stepped_up(m.y_halves[:, :, few], which)

    def made(value: float, draws: Floats) -> Estimate:
        low, high = resampling.quantiles(draws, options.level)
        return estimate(value, low[0], high[0], r, "rewarders")

    ceiling = float(np.sqrt(np.clip(value_x, 0, 1) * np.clip(value_y, 0, 1)))
    ceilings = np.sqrt(np.clip(draws_x, 0, 1) * np.clip(draws_y, 0, 1))
    return Reliability(
        x=made(value_x, draws_x),
        y=made(value_y, draws_y),
        ceiling=made(ceiling, ceilings),
        disattenuated=_corrected(pearson, ceiling),
    )


def _corrected(pearson: Estimate, ceiling: float) -> Estimate:
    """r over its ceiling, and the bounds of its interval over the ceiling; cut at ±1."""
    if pearson.value is None or not ceiling > LOW_CEILING:  # also where the ceiling is NaN
        return nothing(pearson.n)
    value, low, high = (
        None if v is None else float(np.clip(v / ceiling, -1, 1))
        for v in (pearson.value, pearson.low, pearson.high)
    )
    return estimate(value, low, high, pearson.n, pearson.method)


def _stepped_up(halves: Floats, which: Ints | None = None) -> Floats:
    """Mean over splits of the halves' correlation, stepped up: a number, or one per draw (B)."""
    a, b = (half.T for half in halves)  # (S, R) each
    if which is not None:
        a, b = a[:, which], b[:, which]  # (S, B, R)
    r = resampling.pearson_rows(a, b)
    known = np.isfinite(r)
    mean = np.where(known, r, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    mean = np.where(known.any(axis=0), mean, np.nan)
    return np.asarray(2 * mean / (1 + np.maximum(mean, -0.5)), dtype=float)


def agreement(m: Measured, options: Options) -> PairAgreement:
    """Agreement on pairs of rewarders; intervals resample rewarders.

    Two rewarders are distinguished on an axis if their difference is more than z standard errors
    of that (paired) difference; without draws nothing is known about that.
    """
    r = len(m.names)
    dx, dy = m.x[:, None] - m.x[None, :], m.y[:, None] - m.y[None, :]
    upper = np.triu(np.ones((r, r), dtype=bool), 1)
    agree = (1 + np.sign(dx) * np.sign(dy)) / 2
    counted = upper | upper.T
    which = rewarder_draws(r, options.draws, options.seed)
    cells = which + r * np.arange(options.draws)[:, None]
    weights = np.bincount(cells.ravel(), minlength=options.draws * r).reshape(-1, r).astype(float)

    def drawn(pairs: Floats) -> Floats:
        return np.asarray(np.einsum("br,br->b", weights @ pairs, weights))

    everyone = drawn(counted.astype(float))

    def mean(values: Floats, over: NDArray[np.bool_]) -> Estimate:
        if not over.any():
            return nothing()
        top = drawn(values * over)
        size = everyone if over is counted else drawn(over.astype(float))
        with np.errstate(invalid="ignore", divide="ignore"):
            low, high = resampling.quantiles(top / size, options.level)
        value, pairs = values[over].mean(), int(over.sum()) // 2
        if low[0] == high[0] == value and value in (0.0, 1.0):  # pairs share their rewarders
            return resampling.sure(value, int(over.any(axis=1).sum()), pairs, options.level)
        return estimate(value, low[0], high[0], pairs, "rewarders")

    none = nothing(r)
    if m.x_draws is None or m.y_draws is None:
        return PairAgreement(
            num_pairs=r * (r - 1) // 2, agreement=mean(agree, counted), num_separable=0,
            agreement_separable=none, brier=none, separability_x=none, separability_y=none,
        )  # fmt: skip
    z = float(special.ndtri((1 + options.level) / 2))
    sx, sy = difference_errors(m.x_draws), difference_errors(m.y_draws)
    apart_x, apart_y = (np.abs(dx) > z * sx) & counted, (np.abs(dy) > z * sy) & counted
    with np.errstate(invalid="ignore", divide="ignore"):
        score = np.where(sx > 0, dx / sx, np.sign(dx) * 40)
    believed = special.ndtr(score)
    brier = (believed - (1 + np.sign(dy)) / 2) ** 2
    both = apart_x & apart_y
    return PairAgreement(
        num_pairs=r * (r - 1) // 2,
        agreement=mean(agree, counted),
        num_separable=int(both.sum()) // 2,
        agreement_separable=mean(agree, both),
        brier=mean(brier, counted),
        separability_x=mean(apart_x.astype(float), counted),
        separability_y=mean(apart_y.astype(float), counted),
    )


def partials(m: Measured, options: Options) -> tuple[Partial, ...]:
    """Pearson's r given log size, and given length bias, where known for four or more."""
    result = []
    known_of: tuple[tuple[Given, Floats | None], ...] = (
        ("size", m.sizes),
        ("length_bias", m.length_bias),
    )
    for name, given in known_of:
        if given is None:
            continue
        known = np.flatnonzero(np.isfinite(given) & ((given > 0) | (name != "size")))
        if len(known) < 5:
            continue
        z = np.log(given[known]) if name == "size" else given[known]
        if np.ptp(z) < 1e-12:
            continue
        design = np.stack([np.ones(len(z)), z - z.mean()], axis=1)
        left = [
            v[known] - design @ np.linalg.lstsq(design, v[known], rcond=None)[0] for v in (m.x, m.y)
        ]
        value = float(resampling.pearson_rows(*left))
        if not np.isfinite(value):
            continue
        low, high = resampling.fisher_interval(value, len(known) - 1, options.level)
        result.append(
            Partial(
                given=name,
                estimate=estimate(value, low, high, len(known), "fisher"),
                p_value=resampling.t_test_p(value, len(known), given=1),
            )
        )
    return tuple(result)
