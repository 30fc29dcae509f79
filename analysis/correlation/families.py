"""Rewarders that share base models: intervals that allow for it, r within and between families.

Checkpoints of one base model err alike, so the interval for independent rewarders is too narrow
(14 rewarders from 4 base models: it covers as little as 72 in 100). With five or more families,
each is left out in turn (jackknife on Fisher's scale, Student's t with one degree of freedom less
than families), and the wider of the two intervals is read, with the p of the jackknife. With fewer
families neither an interval nor p holds. Ranks have neither.
"""

from typing import Any, TypeVar

import numpy as np
from scipy import special

from bon.analysis.correlation.paired_accuracies import Measured
from bon.analysis.estimators import resampling
from bon.analysis.estimators.resampling import estimate, nothing
from bon.analysis.results import ENOUGH_BASES, Estimate, Families, Record
from bon.analysis.results.phrasing import bounded, plural
from bon.choosing.opinion import Ints
from bon.core.base_models import without_mark

T = TypeVar("T", bound=Record)


def family_codes(m: Measured) -> Ints | None:
    """Return the family of each rewarder as codes (R), or None if no known family is shared."""
    labels = [without_mark(f) or f"\0{name}" for f, name in zip(m.families, m.names, strict=False)]
    names = list(dict.fromkeys(labels))
    if len(names) == len(labels):
        return None
    return np.array([names.index(f) for f in labels], dtype=np.int64)


def clustered(
    m: Measured, codes: Ints, read: Estimate, level: float
) -> tuple[Estimate, float | None]:
    """Return r with an interval and a p that allow for families; r alone for few of them.

    `read` is r with the interval for independent rewarders.
    """
    count = int(codes.max()) + 1
    if count < ENOUGH_BASES or read.value is None or read.low is None or read.high is None:
        return without_bounds(read), None
    middle, error = resampling.jackknife(m.x, m.y, codes)
    half = special.stdtrit(count - 1, (1 + level) / 2) * error
    low, high = np.tanh(middle - half), np.tanh(middle + half)
    p = 2 * special.stdtr(count - 1, -(abs(middle) / error)) if error > 0 else 0.0
    bounds = min(low, read.low), max(high, read.high)
    return estimate(read.value, *bounds, read.n, "jackknife over families"), float(p)


def without_bounds(number: Estimate) -> Estimate:
    """Drop an interval that takes rewarders as independent."""
    return estimate(number.value, None, None, number.n, "none")


def untested(record: T) -> T:
    """Drop bounds and p that take rewarders as independent."""
    update: dict[str, Any] = {
        name: without_bounds(value) for name, value in record if isinstance(value, Estimate)
    }
    if "p_value" in type(record).model_fields:
        update["p_value"] = None
    return record.model_copy(update=update)


def families(m: Measured, level: float) -> Families | None:
    """Describe shared families; None if none are shared."""
    codes = family_codes(m)
    if codes is None:
        return None
    sizes = np.bincount(codes)
    r, count = len(codes), len(sizes)
    x, y = (np.bincount(codes, weights=v) / sizes for v in (m.x, m.y))
    within, between = _within(m, codes, level), nothing(count)
    if count >= 3:
        between = resampling.fisher(float(resampling.pearson_rows(x, y)), count, level)
    return Families(
        num_families=count,
        within=within,
        sentence=_sentence(count, r, within, between),
    )


def _within(m: Measured, codes: Ints, level: float) -> Estimate:
    """Correlate after centring each family, with Fisher's interval; `codes` (R)."""
    sizes = np.bincount(codes)
    free = len(codes) - len(sizes) + 1
    if free < 4:
        return nothing(len(codes))
    x, y = (v - (np.bincount(codes, weights=v) / sizes)[codes] for v in (m.x, m.y))
    return resampling.fisher(float(resampling.pearson_rows(x, y)), free, level)


def _sentence(count: int, rewarders: int, within: Estimate, between: Estimate) -> str:
    parts = []
    if within.value is not None:
        parts.append(f"within families r is {bounded(within)}")
    if between.value is not None:
        parts.append(f"between family means {bounded(between)}")
    text = ", ".join(parts)
    if count >= ENOUGH_BASES:
        head = f"{rewarders} rewarders from {count} base models"
        return f"{head}: {text}." if text else f"{head}."
    head = (
        f"{rewarders} rewarders from {plural(count, 'base model')}: an interval of r and a yes "
        f"need at least {ENOUGH_BASES}."
    )
    return f"{head} {text[0].upper()}{text[1:]}." if text else head
