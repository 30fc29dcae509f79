"""What if: the gain of a new rewarder from its benchmark score, and how large a study must be."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bon.analysis.correlation.families import without_bounds
from bon.analysis.correlation.leave_out import STRONG
from bon.analysis.correlation.measured import Measured
from bon.analysis.estimators.resampling import estimate, pearson_rows
from bon.analysis.results import Correlation, Needed, NeededRow, Options, Prediction, WhatIf
from bon.analysis.results.phrasing import coefficient, interval, percent, points

REWARDERS = (6, 10, 16, 24, 36, 50, 75, 100, 150, 200)
STUDIES = 400
POWER = 0.8

Floats = NDArray[np.float64]


class _Studies(NamedTuple):
    """r of simulated studies with the bounds of its interval, (STUDIES) each."""

    r: Floats
    low: Floats
    high: Floats


def what_if(
    measured: Measured,
    correlation: Correlation,
    pass_at_1: float | None,
    majority: float | None,
    level: float,
) -> WhatIf | None:
    """Best-of-N accuracy of one new rewarder for a range of benchmark scores.

    The interval is Student's prediction interval of the fitted line: it holds for a new
    rewarder of the same population, measured on as many pairs, and takes pass@1 as known. With
    rewarders of fewer bases than an interval needs there is none.
    """
    x, y = measured.x, measured.y
    usable = np.isfinite(x) & np.isfinite(y)
    x, y = x[usable], y[usable]
    r = len(x)
    if correlation.fit is None or r < 4:
        return None
    few = correlation.families is not None and not correlation.families.enough
    dx = x - x.mean()
    sxx = float(dx @ dx)
    slope = float(dx @ y) / sxx
    residual = y - y.mean() - slope * dx
    s = float(np.sqrt(residual @ residual / (r - 2)))
    t = float(special.stdtrit(r - 2, (1 + level) / 2))
    step = 0.05 if np.ptp(x) > 0.15 else 0.01
    first = max(0.0, np.floor(x.min() / step - 1) * step)
    last = min(1.0, np.ceil(x.max() / step + 1) * step)
    rows = []
    for at in np.arange(first, last + step / 2, step).tolist():
        value = float(y.mean() + slope * (at - x.mean()))
        error = s * np.sqrt(1 + 1 / r + (at - x.mean()) ** 2 / sxx)
        low, high = max(value - t * error, 0.0), min(value + t * error, 1.0)
        base = pass_at_1 or 0.0
        above = None
        if majority is not None and error > 0:
            above = float(special.stdtr(r - 2, (value - majority) / error))
        gain = estimate(value - base, low - base, high - base, r, "t")
        accuracy = estimate(value, low, high, r, "t")
        if few:
            gain, accuracy, above = without_bounds(gain), without_bounds(accuracy), None
        rows.append(
            Prediction(
                x=round(at, 6),
                accuracy=accuracy,
                gain=gain if pass_at_1 is not None else estimate(None, None, None, r, "none"),
                probability_above_majority=above,
                extrapolated=bool(at < x.min() - 1e-9 or at > x.max() + 1e-9),
            )
        )
    middle = min((row for row in rows if not row.extrapolated), key=lambda row: -row.x)
    a = middle.accuracy
    text = (
        f"A new rewarder that scores {percent(middle.x, 0)} would reach {percent(a.value)} "
        f"Best-of-N accuracy{interval(a, percent)} on {correlation.policy}"
    )
    if middle.gain.value is not None:
        text += f", a gain of {points(middle.gain.value)}"
    return WhatIf(
        policy=correlation.policy,
        benchmark=correlation.benchmark,
        axis=correlation.axis,
        rows=tuple(rows),
        sentence=text + ".",
    )


def needed(
    correlation: Correlation, num_questions: int, num_pairs: int, options: Options
) -> Needed | None:
    """How many rewarders and questions show r > target, by simulating whole studies.

    The target is the verdict's line unless the options name another one.

    Each simulated study draws R rewarders with the true r (corrected for attenuation, where
    that is known), adds noise to both axes as in this run, scaled to its numbers of questions
    and pairs, and takes Fisher's interval.
    """
    value = correlation.pearson.estimate.value
    if value is None:
        return None
    noise = correlation.reliability
    known = noise is not None and noise.x.value is not None and noise.y.value is not None
    rel_x = float(np.clip(noise.x.value, 0.05, 1)) if known and noise and noise.x.value else 1.0
    rel_y = float(np.clip(noise.y.value, 0.05, 1)) if known and noise and noise.y.value else 1.0
    corrected = noise.disattenuated.value if noise is not None else None
    true_r = float(np.clip(corrected if corrected is not None else value, -0.99, 0.99))
    target = STRONG if options.target_r is None else options.target_r
    rng = np.random.default_rng([options.seed, 11])
    rows = []
    for questions in sorted({max(num_questions // 4, 50), num_questions, num_questions * 4}):
        factor = questions / num_questions
        sx, sy = ((1 / rel - 1) / factor for rel in (rel_x, rel_y))
        for r in REWARDERS:
            study = _simulate(rng, true_r, r, sx, sy, options.level)
            rows.append(
                NeededRow(
                    num_rewarders=r,
                    num_questions=questions,
                    num_pairs=round(num_pairs * factor),
                    expected_r=float(study.r.mean()),
                    median_width=float(np.median(study.high - study.low)),
                    power=float((study.low > target).mean()),
                )
            )
    here = [row for row in rows if row.num_questions == num_questions and row.power >= POWER]
    enough = min((row.num_rewarders for row in here), default=None)
    return Needed(
        policy=correlation.policy,
        benchmark=correlation.benchmark,
        target_r=target,
        true_r=true_r,
        rows=tuple(rows),
        num_rewarders=enough,
        sentence=_needed_sentence(true_r, enough, rows, num_questions, target),
    )


def _simulate(
    rng: np.random.Generator, true_r: float, r: int, noise_x: float, noise_y: float, level: float
) -> _Studies:
    """Studies of r rewarders whose true accuracies have unit variance."""
    x = rng.normal(size=(STUDIES, r))
    y = true_r * x + np.sqrt(1 - true_r**2) * rng.normal(size=(STUDIES, r))
    x = x + np.sqrt(noise_x) * rng.normal(size=x.shape)
    y = y + np.sqrt(noise_y) * rng.normal(size=y.shape)
    found = pearson_rows(x, y)
    z = np.arctanh(np.clip(found, -0.9999999, 0.9999999))
    half = special.ndtri((1 + level) / 2) / np.sqrt(r - 3)
    return _Studies(found, np.tanh(z - half), np.tanh(z + half))


def _needed_sentence(
    true_r: float, enough: int | None, rows: list[NeededRow], questions: int, target: float
) -> str:
    claim = f"r > {coefficient(target)}"
    if true_r <= target:
        return f"{claim} cannot be shown by any study if the true r is {coefficient(true_r)}."
    if enough is not None:
        return (
            f"If the true r is {coefficient(true_r)}, {enough} rewarders of different bases on "
            f"{questions} questions show {claim} in four studies out of five."
        )
    more = [row for row in rows if row.power >= POWER]
    if more:
        best = min(more, key=lambda row: (row.num_questions, row.num_rewarders))
        return (
            f"If the true r is {coefficient(true_r)}, {questions} questions cannot show {claim} "
            f"with up to {REWARDERS[-1]} rewarders; {best.num_rewarders} rewarders on "
            f"{best.num_questions} questions (and more pairs in proportion) can."
        )
    return (
        f"If the true r is {coefficient(true_r)}, even {REWARDERS[-1]} rewarders on "
        f"{rows[-1].num_questions} questions would not show {claim}."
    )
