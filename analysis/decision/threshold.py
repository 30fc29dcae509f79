"""The score that suffices: where the prediction for a new rewarder clears what needs none.

The surrogate threshold effect of Burzykowski and Buyse (2006, Pharmaceutical Statistics 5,
173-186): the lowest value of the surrogate (a benchmark score) from which on the prediction
interval of the true effect (Best-of-N accuracy) excludes no effect (pass@1, or majority vote).
"""

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bon.analysis.correlation.families import bases
from bon.analysis.correlation.measured import Label, Measured, rewarder_draws
from bon.analysis.decision.gate import WORDS
from bon.analysis.estimators.resampling import estimate, nothing, quantiles
from bon.analysis.results import ENOUGH_BASES, Base, Options, Threshold
from bon.analysis.results.phrasing import percent

Floats = NDArray[np.float64]

MIN_REWARDERS = 5
NEVER = 1.0  # what a draw without a threshold counts as, in its interval


def threshold(
    label: Label,
    m: Measured,
    over: Base,
    base: float,
    base_draws: NDArray[np.floating],
    options: Options,
) -> Threshold | None:
    """The lowest benchmark score whose prediction interval lies above `base`.

    `base_draws` (B) share their draws with those of the rewarders' accuracies. The interval
    resamples rewarders, pairs and questions together; a draw in which no score suffices counts
    as a score of 100 %. None with too few rewarders to predict another one; without bounds where
    they are of too few bases (bon.analysis.correlation.families).
    """
    m = m.keep(np.flatnonzero(np.isfinite(m.x) & np.isfinite(m.y)))
    r = len(m.names)
    if r < MIN_REWARDERS or np.ptp(m.x) < 1e-9:
        return None
    score = float(lowest(m.x, m.y, np.array(base), options.level))
    of = bases(m)
    count = r if of is None else int(of.max()) + 1
    found = (
        estimate(score, None, None, r, "none")
        if count < ENOUGH_BASES
        else estimate(score, *_interval(m, base_draws, options), r, "rewarders and questions")
    )
    above = m.x >= score
    return Threshold(
        policy=label.policy,
        benchmark=label.benchmark,
        axis=label.axis,
        over=over,
        accuracy=base,
        score=found if np.isfinite(score) else nothing(r),
        extrapolated=bool(score > m.x.max()),
        rewarders_above=int(above.sum()),
        rewarders_above_that_clear=int((m.y[above] > base).sum()),
        sentence=_sentence(label, WORDS[over], score, m, base) + _caveat(count),
    )


def lowest(x: Floats, y: Floats, base: Floats, level: float) -> Floats:
    """Lowest score in [0, 1] at which Student's lower prediction limit reaches `base` (…).

    Of fits over the last axis of x and y (…, R); NaN where no score reaches it, or where the
    line does not rise. The limit is concave in the score, so its crossing from below is the
    smaller root of a quadratic.
    """
    r = x.shape[-1]
    centre, height = x.mean(axis=-1), y.mean(axis=-1)
    dx, dy = x - centre[..., None], y - height[..., None]
    with np.errstate(invalid="ignore", divide="ignore"):
        sxx = (dx * dx).sum(axis=-1)
        slope = (dx * dy).sum(axis=-1) / sxx
        left = dy - slope[..., None] * dx
        noise = special.stdtrit(r - 2, (1 + level) / 2) ** 2 * (left**2).sum(axis=-1) / (r - 2)
        missing = base - height  # solve (slope·u − missing)² = noise·(1 + 1/r + u²/sxx)
        a = slope**2 - noise / sxx
        b = -slope * missing
        c = missing**2 - noise * (1 + 1 / r)
        root = np.sqrt(np.maximum(b * b - a * c, 0))  # a perfect fit may miss zero by rounding
        solutions = np.stack([(-b - root) / a, (-b + root) / a])
        reach = np.sqrt(noise * (1 + 1 / r + solutions**2 / sxx))
        reached = slope * solutions - missing >= reach - 1e-9  # also squared: the upper limit
        at = solutions + centre
        inside = (at >= -1e-9) & (at <= 1 + 1e-9)
        score = np.where(reached & inside, np.clip(at, 0, 1), np.inf).min(axis=0)
        whole = slope * -centre - missing >= np.sqrt(noise * (1 + 1 / r + centre**2 / sxx))
        score = np.where(whole, 0.0, score)
        return np.where((slope > 0) & np.isfinite(score), score, np.nan)


def _interval(
    m: Measured, base_draws: NDArray[np.floating], options: Options
) -> tuple[float, float]:
    if m.x_draws is None or m.y_draws is None:
        return float("nan"), float("nan")
    which = rewarder_draws(len(m.names), m.x_draws.shape[1], options.seed)
    x, y = (
        np.take_along_axis(np.asarray(d.T, dtype=float), which, 1) for d in (m.x_draws, m.y_draws)
    )
    found = lowest(x, y, np.asarray(base_draws, dtype=float), options.level)
    low, high = quantiles(np.where(np.isfinite(found), found, NEVER), options.level)
    return float(low[0]), float(high[0])


def _caveat(count: int) -> str:
    if count >= ENOUGH_BASES:
        return ""
    of = "one base" if count == 1 else f"{count} bases"
    return f" The rewarders come from {of}, which says little about one from another base."


def _sentence(label: Label, over: str, score: float, m: Measured, base: float) -> str:
    if not np.isfinite(score):
        return (
            f"No score on {label.benchmark} is high enough to expect more than {over} "
            f"({percent(base)}) of a new rewarder on {label.policy}."
        )
    text = (
        f"From {percent(score)} on {label.benchmark} on, the prediction for a new rewarder clears "
        f"{over} ({percent(base)}) on {label.policy}"
    )
    if score > m.x.max():
        return f"{text}: more than any rewarder of this run has."
    above = m.x >= score
    return (
        f"{text}; of the {int(above.sum())} rewarders of this run that score as much, "
        f"{int((m.y[above] > base).sum())} do clear it."
    )
