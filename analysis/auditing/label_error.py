"""Label error: against annotators, weighted to the pool, and net of annotators' own mistakes.

`contradicts` is 1 where the consensus of annotators differs from the label, else 0. Label errors
are symmetric: a wrong label names the other of two responses.
"""

import numpy as np
from scipy import special

from bon.analysis.estimators.resampling import estimate, nothing, wilson
from bon.analysis.results import Estimate
from bon.choosing.opinion import Floats


def label_error(contradicts: Floats, level: float) -> Estimate:
    """Share of checked items whose label annotators contradict (Wilson 1927)."""
    return wilson(float(contradicts.sum()), len(contradicts), level)


def weighted_error(contradicts: Floats, probability: Floats, level: float) -> Estimate:
    """Label error of the pool from items drawn with unequal probability.

    Hájek's (1971) ratio of sums weighted by 1 / probability; Wilson's interval with Kish's (1965)
    effective number of items, (Σw)² / Σw².
    """
    if len(contradicts) == 0:
        return nothing()
    weight = 1 / probability
    effective = max(int(weight.sum() ** 2 / (weight @ weight) + 1e-9), 1)
    share = float(weight @ contradicts / weight.sum())
    interval = wilson(share * effective, effective, level, "weighted")
    return interval.model_copy(update={"n": len(contradicts)})


def predicted_error(drafts: Floats, people: Floats, level: float) -> Estimate:
    """Label error of all N items from a draft of each and annotators on a random part.

    Prediction-powered (Angelopoulos et al. 2023): the mean of the drafts plus the mean difference
    of annotators from drafts; unbiased however bad the drafts are. The normal interval counts one
    difference more than observed, so that few checks without one do not prove that there is none.

    Args:
        drafts: (N) 1 where the draft contradicts the label.
        people: (N) 1 where annotators contradict it, NaN where nobody labelled it.
        level: of the interval.
    """
    checked = np.isfinite(people)
    n, m = len(drafts), int(checked.sum())
    if m < 2:
        return nothing(m)
    rest = (people - drafts)[checked]
    value = float(drafts.mean() + rest.mean())
    spread = (float(rest @ rest) + 1) / (m + 2) - rest.mean() ** 2
    rate = min(max(value, 0.0), 1.0)
    variance = rate * (1 - rate) / n + spread * (1 / m - 1 / n)
    half = float(special.ndtri((1 + level) / 2)) * np.sqrt(max(variance, 0.0))
    low, high = max(value - half, 0.0), min(value + half, 1.0)
    return estimate(rate, low, high, m, "prediction-powered")


def annotator_error(differs: Floats, level: float) -> Estimate:
    """Error rate of one annotator, from how often two of them differ.

    Two who err independently at a rate p differ on d = 2p(1 − p) of the items, so p = (1 − √(1 −
    2d)) / 2, with Wilson's bounds of d. Shared mistakes are invisible: then this is a lower bound.

    Args:
        differs: (I) share of differing pairs of ratings of an item with two responses.
        level: of the interval.
    """
    d = wilson(float(differs.sum()), len(differs), level)
    if d.value is None or d.low is None or d.high is None:
        return nothing()
    value, low, high = (_rate(x) for x in (d.value, d.low, d.high))
    return estimate(value, low, high, len(differs), "disagreement")


def _rate(differing: float) -> float:
    return float(1 - np.sqrt(max(1 - 2 * differing, 0.0))) / 2


def corrected_error(contradicts: Floats, annotators: Estimate, level: float) -> Estimate:
    """Share of wrong labels, net of joint mistakes of annotators.

    Two who agree are both wrong with q = p² / (p² + (1 − p)²), so agreed items contradict the label
    with c = e(1 − q) + (1 − e)q, and e = (c − q) / (1 − 2q): the one-coin model of Dawid and Skene
    (1979) by moments. The bounds combine those of c and p.

    Args:
        contradicts: of the items on which two annotators agreed.
        annotators: `annotator_error`.
        level: of the interval.
    """
    c = label_error(contradicts, level)
    numbers = (c.value, c.low, c.high, annotators.value, annotators.low, annotators.high)
    if any(x is None for x in numbers):
        return nothing(len(contradicts))
    value, low, high, p, p_low, p_high = (float(x) for x in numbers if x is not None)
    if p >= 0.5:  # random ratings carry no information
        return nothing(len(contradicts))
    return estimate(
        _net(value, p),
        _net(low, p_high),
        _net(high, p_low),
        len(contradicts),
        "agreed",
    )


def _net(share: float, rate: float) -> float:
    both = rate**2 / (rate**2 + (1 - rate) ** 2)
    return min(max((share - both) / (1 - 2 * both), 0.0), 1.0) if both < 0.5 else 0.0


def ceiling(error: Estimate) -> Estimate:
    """Observed accuracy of a perfect rewarder: a' = a(1 − e) + (1 − a)e with a = 1."""
    if error.value is None or error.low is None or error.high is None:
        return nothing()
    return estimate(1 - error.value, 1 - error.high, 1 - error.low, error.n, error.method)
