"""Rewarders that share base models: intervals of measured r that allow for it.

Checkpoints of one base model err alike, so the interval for independent rewarders is too narrow
(14 rewarders from 4 base models: it covers as little as 72 in 100). With five or more families,
each is left out in turn (jackknife on Fisher's scale, Student's t with one degree of freedom less
than families), and the wider of the two intervals is read. With fewer families there is none, and
none of ranks.
"""

import numpy as np
from scipy import special

from bon.analysis.correlation.paired_accuracies import Measured
from bon.analysis.estimators import resampling
from bon.analysis.estimators.resampling import estimate
from bon.analysis.results import ENOUGH_BASES, Estimate
from bon.choosing.opinion import Ints
from bon.core.base_models import without_mark


def family_codes(m: Measured) -> Ints | None:
    """Return the family of each rewarder as codes (R), or None if no known family is shared."""
    labels = [without_mark(f) or f"\0{name}" for f, name in zip(m.families, m.names, strict=False)]
    names = list(dict.fromkeys(labels))
    if len(names) == len(labels):
        return None
    return np.array([names.index(f) for f in labels], dtype=np.int64)


def num_bases(m: Measured) -> int | None:
    """Return the number of base models; None if none are shared."""
    codes = family_codes(m)
    return None if codes is None else int(codes.max()) + 1


def clustered(m: Measured, codes: Ints, read: Estimate, level: float) -> Estimate:
    """Return r with an interval that allows for families; r alone for few of them.

    `read` is r with the interval for independent rewarders.
    """
    count = int(codes.max()) + 1
    if count < ENOUGH_BASES or read.value is None or read.low is None or read.high is None:
        return without_bounds(read)
    middle, error = resampling.jackknife(m.x, m.y, codes)
    half = special.stdtrit(count - 1, (1 + level) / 2) * error
    low, high = np.tanh(middle - half), np.tanh(middle + half)
    bounds = min(low, read.low), max(high, read.high)
    return estimate(read.value, *bounds, read.n, "jackknife over families")


def without_bounds(number: Estimate) -> Estimate:
    """Drop an interval that takes rewarders as independent."""
    return estimate(number.value, None, None, number.n, "none")
