"""The gain of a new rewarder predicted from its score, and the size a study needs.

Plans promise what simulated studies of independent rewarders give, read as a report reads them: the
interval of `coefficients.read_interval` and the conditions of a yes (`finding.verdict`).
"""

from dataclasses import dataclass

import numpy as np
from scipy import special

from bon.analysis.correlation.coefficients import SMALL
from bon.analysis.correlation.families import without_bounds
from bon.analysis.correlation.line import Line
from bon.analysis.correlation.paired_accuracies import Measured
from bon.analysis.correlation.robustness import CARRIES, HOLDS, STRONG, line_or_groups
from bon.analysis.estimators.resampling import estimate, nothing, pearson_among, pearson_rows
from bon.analysis.results import (
    ENOUGH_REWARDERS,
    STRONG_EVIDENCE,
    Correlation,
    Needed,
    NeededRow,
    Options,
    Prediction,
    WhatIf,
)
from bon.analysis.results.phrasing import coefficient, percent, points, scaled
from bon.choosing.opinion import Bools, Floats

REWARDERS = (6, 8, 10, 14, 18, 24, 36, 50, 75, 100, 150, 200)
POWER = 0.8  # `needed` says 80%


def what_if(
    measured: Measured,
    correlation: Correlation,
    pass_at_1: float | None,
    majority: float | None,
    level: float,
) -> WhatIf | None:
    """Predict the Best-of-N accuracy of a new rewarder over the range of benchmark scores.

    Student's prediction interval of the fitted line, for a new rewarder of the same population
    on as many pairs; pass@1 is taken as known. There is none with too few base models.
    """
    m = measured.complete()
    line = Line.through(m.x, m.y)
    if line is None or line.n < 4:
        return None
    few = correlation.families is not None and not correlation.families.enough
    r, t = line.n, line.t(level)
    step = 0.05 if np.ptp(m.x) > 0.15 else 0.01
    first, last = (round(v / step, 6) for v in (m.x.min(), m.x.max()))
    grid = step * np.arange(np.ceil(first), np.floor(last) + 1)
    base = pass_at_1 or 0.0
    rows = []
    for x in grid.tolist() or [float(m.x.max())]:
        value, error = line.at(x), line.error(x, new=True)
        low, high = max(value - t * error, 0.0), min(value + t * error, 1.0)
        above = None
        if majority is not None and error > 0:
            above = float(special.stdtr(r - 2, (value - majority) / error))
        gain = estimate(value - base, low - base, high - base, r, "t")
        accuracy = estimate(value, low, high, r, "t")
        if few:
            gain, accuracy, above = without_bounds(gain), without_bounds(accuracy), None
        rows.append(
            Prediction(
                x=round(x, 6),
                accuracy=accuracy,
                gain=gain if pass_at_1 is not None else nothing(r),
                probability_above_majority=above,
            )
        )
    top = rows[-1]
    text = (
        f"A new rewarder that scores {percent(top.x, 0)} would reach "
        f"{scaled(top.accuracy, unit='% Best-of-N accuracy')} on "
        f"{correlation.policy}"
    )
    if top.gain.value is not None:
        text += f", a gain of {points(top.gain.value)}"
    return WhatIf(
        policy=correlation.policy,
        benchmark=correlation.benchmark,
        axis=correlation.axis,
        rows=tuple(rows),
        sentence=f"{text}.",
    )


def needed(
    correlation: Correlation, num_questions: int, num_pairs: int, options: Options
) -> Needed | None:
    """Simulate whole studies to find how many rewarders and questions show r > target.

    Each study draws R rewarders with the true r (corrected for attenuation, where known), adds
    the noise of this run to both axes, scaled to its numbers of questions and pairs, and gets the
    report's interval and verdict. The target is the verdict's line unless the options name another.
    """
    value, noise = correlation.pearson.estimate.value, correlation.reliability
    if value is None:
        return None
    rel_x, rel_y, true_r = 1.0, 1.0, value
    if noise is not None:
        if noise.x.value is not None and noise.y.value is not None:
            # A reliability of exactly zero is unknown rather than all noise.
            rel_x, rel_y = (
                float(np.clip(rel, 0.05, 1)) if rel else 1.0
                for rel in (noise.x.value, noise.y.value)
            )
        if noise.disattenuated.value is not None:
            true_r = noise.disattenuated.value
    true_r = float(np.clip(true_r, -0.99, 0.99))
    target = STRONG if options.target_r is None else options.target_r
    rows = []
    for questions in sorted({max(num_questions // 4, 50), num_questions, num_questions * 4}):
        factor = questions / num_questions
        noise_x, noise_y = ((1 / rel - 1) / factor for rel in (rel_x, rel_y))
        for r in REWARDERS:
            study = outcomes(*simulate(true_r, r, noise_x, noise_y), options.level)
            rows.append(
                NeededRow(
                    num_rewarders=r,
                    num_questions=questions,
                    num_pairs=round(num_pairs * factor),
                    power=float((study.low > target).mean()),
                    yes=float(study.yes.mean()),
                )
            )
    powerful = [row for row in rows if row.power >= POWER]
    as_many = [row for row in rows if row.num_questions == num_questions]
    enough = min((row.num_rewarders for row in as_many if row.power >= POWER), default=None)
    for_yes = min((row.num_rewarders for row in as_many if (row.yes or 0) >= POWER), default=None)
    claim, true = f"r > {coefficient(target)}", f"If the true r is {coefficient(true_r)},"
    if true_r <= target:
        sentence = f"{true} no study can show {claim}."
    elif enough is not None:
        sentence = (
            f"{true} {enough} rewarders from different base models on {num_questions} questions "
            f"have 80% power to show {claim}."
        )
        share = next(row.yes for row in as_many if row.num_rewarders == enough)
        sentence += f" The verdict is then yes in {percent(share, 0)} of studies"
        more = for_yes not in (None, enough)
        sentence += f"; with {for_yes} such rewarders, in 80%." if more else "."
    elif powerful:
        best = min(powerful, key=lambda row: (row.num_questions, row.num_rewarders))
        sentence = (
            f"{true} {num_questions} questions cannot show {claim} with up to {REWARDERS[-1]} "
            f"rewarders; {best.num_rewarders} rewarders on {best.num_questions} questions (and "
            "proportionally more pairs) can."
        )
    else:
        sentence = (
            f"{true} even {REWARDERS[-1]} rewarders on {rows[-1].num_questions} questions would "
            f"not show {claim}."
        )
    return Needed(
        policy=correlation.policy,
        benchmark=correlation.benchmark,
        target_r=target,
        true_r=true_r,
        rows=tuple(rows),
        num_rewarders=enough,
        num_for_yes=for_yes,
        sentence=sentence,
    )


# ------------------------------------------------------------------ simulated studies

STUDIES = 300
ONE_LINE = 24
"""Above this many rewarders a line is not compared with groups, which it would beat in 97%."""


@dataclass(frozen=True)
class Outcomes:
    """r of S studies with the interval that a report shows, and which verdicts are `yes`.

    A withheld interval is NaN; where it would not lie above zero, it is not checked.
    """

    r: Floats
    low: Floats
    high: Floats
    yes: Bools


def simulate(
    true_r: float, rewarders: int, noise_x: float, noise_y: float, studies: int = STUDIES
) -> tuple[Floats, Floats]:
    """Draw both axes (S, R): unit variance between rewarders, and noise of these variances.

    Studies of one number of rewarders share their random numbers.
    """
    rng = np.random.default_rng([rewarders, studies])
    x, rest, error_x, error_y = rng.normal(size=(4, studies, rewarders))
    y = true_r * x + np.sqrt(1 - true_r**2) * rest
    return x + np.sqrt(noise_x) * error_x, y + np.sqrt(noise_y) * error_y


def intervals(x: Floats, y: Floats, level: float) -> tuple[Floats, Floats, Floats]:
    """Return r of each study with Fisher's interval, from SMALL rewarders on the jackknife's."""
    n = x.shape[1]
    r = pearson_rows(x, y)
    z = np.arctanh(np.clip(r, -0.9999999, 0.9999999))
    if n < SMALL:
        half = np.full(len(z), special.ndtri((1 + level) / 2) / np.sqrt(n - 3))
    else:
        zs = np.arctanh(np.clip(_without_each(x, y), -0.9999999, 0.9999999))
        spread = ((zs - zs.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        half = special.stdtrit(n - 1, (1 + level) / 2) * np.sqrt((n - 1) / n * spread)
    return r, np.tanh(z - half), np.tanh(z + half)


def outcomes(x: Floats, y: Floats, level: float) -> Outcomes:
    """Return what a report on each study says, its base models known and all different."""
    n = x.shape[1]
    r, low, high = intervals(x, y, level)
    yes = (low > STRONG) & (n >= ENOUGH_REWARDERS)
    if SMALL <= n <= ONE_LINE:
        checked = np.flatnonzero(low > 0)
        evidence = np.full(len(r), np.inf)
        evidence[checked], _ = line_or_groups(x[checked], y[checked])
        withheld = evidence <= -STRONG_EVIDENCE
        low, high = (np.where(withheld, np.nan, bound) for bound in (low, high))
        yes &= evidence >= STRONG_EVIDENCE
    yes &= r - _without_each(x, y).min(axis=1) < CARRIES
    better = x >= np.sort(x, axis=1)[:, [n // 2]]
    for i in np.flatnonzero(yes):
        yes[i] = pearson_among(x[i], y[i], better[i][None])[0] >= HOLDS
    return Outcomes(r, low, high, yes)


def _without_each(x: Floats, y: Floats) -> Floats:
    """(S, R): r of each study without each rewarder, from sums of products."""
    n = x.shape[1]
    x, y = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
    left = n / (n - 1)  # of a sum of squares without one point: less its own share
    sxy, sxx, syy = (
        (a * b).sum(axis=1, keepdims=True) - left * a * b for a, b in ((x, y), (x, x), (y, y))
    )
    return np.asarray(sxy / np.sqrt(sxx * syy))
