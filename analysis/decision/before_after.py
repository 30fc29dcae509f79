"""Before and after training: did what a model gained on the benchmark carry over to its choices?

Both changes are paired, over the same draws of pairs and of questions, so what makes a pair or a
question easy for the model before and after cancels out. They are comparisons that were asked for,
one for each trained model, and are not corrected for each other.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bon.analysis.correlation.measured import MIN_REWARDERS, Label, Measured, difference_errors
from bon.analysis.estimators.resampling import estimate, number
from bon.analysis.results import BeforeAfter, Carried, Estimate, Options
from bon.analysis.results.phrasing import gained, points

Floats = NDArray[np.float64]


def before_after(label: Label, m: Measured, options: Options) -> list[BeforeAfter]:
    """Every rewarder whose model before training is measured too, in the order of the rewarders."""
    if m.x_draws is None or m.y_draws is None:
        return []
    usable = np.isfinite(m.x) & np.isfinite(m.y)
    made = []
    for after, name in enumerate(m.names):
        if not m.before or m.before[after] not in m.names:
            continue
        before = m.names.index(m.before[after])
        if not (usable[before] and usable[after]):
            continue
        pair = [before, after]
        x_error = difference_errors(m.x_draws[pair])[0, 1]
        y_error = difference_errors(m.y_draws[pair])[0, 1]
        if m.y_errors is not None:
            y_error = m.y_errors[before, after]
        x = _change(m.x, x_error, before, after, m.x_estimates[after], options.level)
        y = _change(m.y, y_error, before, after, m.y_estimates[after], options.level)
        others = usable & (np.arange(len(m.names)) != before) & (np.arange(len(m.names)) != after)
        expected = _expected(m, others, x)
        carried = _carried(x, y, expected)
        made.append(
            BeforeAfter(
                policy=label.policy,
                benchmark=label.benchmark,
                axis=label.axis,
                leaks=label.leaks,
                before=m.names[before],
                after=name,
                benchmark_change=x,
                choice_change=y,
                expected=expected,
                carried=carried,
                sentence=_sentence(label, m.names[before], name, x, y, expected, carried),
            )
        )
    return made


def _change(
    values: Floats,
    error: float,
    before: int,
    after: int,
    measured: Estimate,
    level: float,
) -> Estimate:
    """The paired difference with a normal interval, as in all comparisons of rewarders."""
    value = float(values[after] - values[before])
    if not np.isfinite(error):
        return estimate(value, None, None, measured.n, "none")
    half = float(special.ndtri((1 + level) / 2)) * float(error)
    return estimate(value, value - half, value + half, measured.n, measured.method)


def _expected(m: Measured, others: NDArray[np.bool_], x: Estimate) -> float | None:
    """The slope of the other rewarders times the change on the benchmark."""
    dx = m.x[others] - m.x[others].mean() if others.sum() >= MIN_REWARDERS else np.zeros(1)
    if x.value is None or dx @ dx < 1e-18:
        return None
    return number(x.value * float(dx @ m.y[others]) / float(dx @ dx))


def _carried(x: Estimate, y: Estimate, expected: float | None) -> Carried:
    if x.low is None or x.low <= 0:
        return "no gain"
    if y.low is None or y.high is None:
        return "unclear"
    short = expected is not None and y.high < expected
    if y.low > 0:
        return "fell short" if short else "carried over"
    return "did not carry over" if short or y.high < 0 else "unclear"


WORDS: dict[Carried, str] = {
    "carried over": "the gain on the benchmark carried over",
    "fell short": "the gain on the benchmark carried over in part",
    "did not carry over": "the gain on the benchmark did not carry over",
    "unclear": "whether the gain on the benchmark carried over is not clear",
    "no gain": "there is no clear gain on the benchmark that could carry over",
}


def _sentence(
    label: Label,
    before: str,
    after: str,
    x: Estimate,
    y: Estimate,
    expected: float | None,
    carried: Carried,
) -> str:
    line = ""
    if expected is not None and carried != "no gain":
        line = f"; the line through the other rewarders leads to expect {points(expected)}"
    return (
        f"From {before} to {after}: {gained(x)} on {label.benchmark}, {gained(y)} in Best-of-"
        f"{label.n or 'N'} accuracy on {label.policy}{line}: {WORDS[carried]}."
    )
