"""The benchmark score that suffices: where the prediction for a new rewarder exceeds a baseline.

The surrogate threshold effect of Burzykowski and Buyse (2006, Pharmaceutical Statistics 5,
173-186): the lowest benchmark score at which the prediction interval of Best-of-N accuracy
excludes pass@1, or majority vote.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bon.analysis.correlation.families import family_codes
from bon.analysis.correlation.line import Line, structural
from bon.analysis.correlation.paired_accuracies import Label, Measured, rewarder_draws
from bon.analysis.decision.gate import WORDS
from bon.analysis.estimators.resampling import estimate, nothing, quantiles
from bon.analysis.results import ENOUGH_BASES, Base, Estimate, Options, Threshold
from bon.analysis.results.phrasing import percent, plural
from bon.choosing.opinion import Floats

MIN_REWARDERS = 5
MAX_DRAWS = 2000  # for the line of true accuracies, which is fitted in steps
NEVER = 1.0  # value of draws without a threshold, in its interval


def threshold(
    label: Label,
    m: Measured,
    over: Base,
    base: float,
    base_draws: NDArray[np.floating],
    options: Options,
) -> Threshold | None:
    """Find the lowest benchmark score whose prediction interval lies above `base`.

    `base_draws` (B) share their draws with the rewarders' accuracies. The interval resamples
    rewarders, pairs and questions together. None with too few rewarders; without bounds with too
    few base models (bon.analysis.correlation.families).
    """
    m = m.complete()
    r = len(m.names)
    if r < MIN_REWARDERS or np.ptp(m.x) < 1e-9:
        return None
    codes = family_codes(m)
    count = r if codes is None else int(codes.max()) + 1
    enough, errors = count >= ENOUGH_BASES, m.error_variances
    result = _sufficient(m, base, base_draws, options, enough)
    score = np.inf if result.value is None else result.value
    caveat = ""
    if count < ENOUGH_BASES:
        of = plural(count, "base model")
        caveat = f" The rewarders come from {of}: too few to generalise to another one."
    return Threshold(
        **label.scope,
        over=over,
        accuracy=base,
        score=result,
        true_score=_sufficient(m, base, base_draws, options, enough, errors) if errors else None,
        sentence=_sentence(label, WORDS[over], score, m, base, options.level) + caveat,
    )


def lowest(
    x: Floats, y: Floats, base: Floats, level: float, errors: tuple[Floats, Floats] | None = None
) -> Floats:
    """Find the lowest score in [0, 1] at which Student's lower prediction limit reaches `base`.

    For fits over the last axis of x and y (…, R): least squares, or the line of true accuracies if
    the error variances of both axes are given. NaN if no score reaches it, or if the line does not
    rise. The limit is concave in the score, so its crossing from below is the smaller root of a
    quadratic.
    """
    r = x.shape[-1]
    t = special.stdtrit(r - 2, (1 + level) / 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        if errors is None:
            centre, height = x.mean(axis=-1), y.mean(axis=-1)
            dx, dy = x - centre[..., None], y - height[..., None]
            sxx = (dx * dx).sum(axis=-1)
            slope = (dx * dy).sum(axis=-1) / sxx
            residual = dy - slope[..., None] * dx
            noise = (residual**2).sum(axis=-1) / (r - 2)
            tilt, spread = t**2 * noise / sxx, t**2 * noise * (1 + 1 / r)
        else:
            slope, centre, height, scatter, slope_error, height_error = structural(x, y, *errors)
            tilt, spread = t**2 * slope_error, t**2 * (scatter + height_error)
        missing = base - height  # solve (slope·u − missing)² = spread + tilt·u²
        a = slope**2 - tilt
        b = -slope * missing
        c = missing**2 - spread
        root = np.sqrt(np.maximum(b * b - a * c, 0))  # a perfect fit may miss zero by rounding
        solutions = np.stack([(-b - root) / a, (-b + root) / a])
        reach = np.sqrt(spread + tilt * solutions**2)
        reached = slope * solutions - missing >= reach - 1e-9  # also squared: the upper limit
        at = solutions + centre
        inside = (at >= -1e-9) & (at <= 1 + 1e-9)
        score = np.where(reached & inside, np.clip(at, 0, 1), np.inf).min(axis=0)
        whole = slope * -centre - missing >= np.sqrt(spread + tilt * centre**2)
        score = np.where(whole, 0.0, score)
        return np.where((slope > 0) & np.isfinite(score), score, np.nan)


def _sufficient(
    m: Measured,
    base: float,
    base_draws: NDArray[np.floating],
    options: Options,
    bounded: bool,
    errors: tuple[Floats, Floats] | None = None,
) -> Estimate:
    """Return the sufficient score; its interval resamples rewarders, pairs and questions."""
    r = len(m.names)
    score = float(lowest(m.x, m.y, np.array(base), options.level, errors))
    if not np.isfinite(score):
        return nothing(r)
    low, high = np.array([np.nan]), np.array([np.nan])
    if bounded and m.x_draws is not None and m.y_draws is not None:
        count = len(base_draws) if errors is None else min(len(base_draws), MAX_DRAWS)
        rows = rewarder_draws(r, count, options.seed)
        x, y = (
            np.take_along_axis(np.asarray(d.T[:count], dtype=float), rows, 1)
            for d in (m.x_draws, m.y_draws)
        )
        doubled = None  # a draw adds an error of the same variance to the one measured
        if errors is not None:
            doubled = (2 * errors[0][rows], 2 * errors[1][rows])
        scores = lowest(x, y, np.asarray(base_draws[:count], dtype=float), options.level, doubled)
        low, high = quantiles(np.where(np.isfinite(scores), scores, NEVER), options.level)
    return estimate(score, low[0], high[0], r, "rewarders and questions")


def _sentence(label: Label, over: str, score: float, m: Measured, base: float, level: float) -> str:
    baseline, interval = f"{over} ({percent(base)})", f"{percent(level, 0)} prediction interval"
    if not np.isfinite(score):
        return (
            f"At no score on {label.benchmark} does the {interval} of a new rewarder lie above "
            f"{baseline} on {label.policy}."
        )
    text = (
        f"From a score of {percent(score)} on {label.benchmark}, the {interval} of a new rewarder "
        f"lies above {baseline} on {label.policy}"
    )
    line = Line.through(m.x, m.y)
    if line is not None and line.slope > 0:
        text += f"; the line itself reaches it at {percent(line.crossing(base))}"
    if score > m.x.max():
        return f"{text}. No rewarder of this run scores as much."
    above = m.y[m.x >= score] > base
    return f"{text}; {int(above.sum())} of the {len(above)} rewarders of this run above it do."
