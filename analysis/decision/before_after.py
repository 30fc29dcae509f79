"""Before and after training: does a gain on the benchmark carry over to Best-of-N?

Both changes are paired over the same draws of pairs and of questions. The comparisons were planned,
one per trained model, and are not corrected for each other.
"""

import numpy as np
from scipy import special

from bon.analysis.correlation.line import Line
from bon.analysis.correlation.paired_accuracies import Label, Measured, difference_errors
from bon.analysis.estimators.resampling import around, number
from bon.analysis.results import BeforeAfter, Carried, Estimate, Options
from bon.analysis.results.phrasing import gained, points


def before_after(label: Label, m: Measured, options: Options) -> list[BeforeAfter]:
    """Compare every rewarder with its model before training, where both are measured."""
    if m.x_draws is None or m.y_draws is None or not m.before:
        return []
    usable = np.isfinite(m.x) & np.isfinite(m.y)
    results = []
    for after, earlier in enumerate(m.before):
        before = m.names.index(earlier) if earlier in m.names else after
        if before == after or not (usable[before] and usable[after]):
            continue
        pair = [before, after]
        x_error = difference_errors(m.x_draws[pair])[0, 1]
        y_error = difference_errors(m.y_draws[pair])[0, 1]
        if m.y_errors is not None:
            y_error = m.y_errors[before, after]
        x = _change(m.x[after] - m.x[before], x_error, m.x_estimates[after], options.level)
        y = _change(m.y[after] - m.y[before], y_error, m.y_estimates[after], options.level)
        others = np.setdiff1d(np.flatnonzero(usable), pair)
        line = Line.through(m.x[others], m.y[others])
        expected = number(x.value * line.slope) if line and x.value is not None else None
        carried = _carried(x, y, expected)
        trend = ""
        if expected is not None and carried != "no gain":
            trend = f" (the trend of the other rewarders predicts {points(expected)})"
        sentence = (
            f"From {earlier} to {m.names[after]}: {gained(x)} on {label.benchmark}, {gained(y)} in "
            f"Best-of-{label.n or 'N'} accuracy on {label.policy}{trend}: {WORDS[carried]}."
        )
        results.append(
            BeforeAfter(
                **label.scope, before=earlier, after=m.names[after], benchmark_change=x,
                choice_change=y, expected=expected, carried=carried, sentence=sentence,
            )
        )  # fmt: skip
    return results


def _change(value: float, error: float, measured: Estimate, level: float) -> Estimate:
    """Return the paired difference with a normal interval."""
    return around(value, special.ndtri((1 + level) / 2) * error, measured.n, measured.method)


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
    "unclear": "it is unclear whether the gain on the benchmark carried over",
    "no gain": "there is no clear gain on the benchmark that could carry over",
}
