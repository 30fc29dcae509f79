"""Rewarders that share a base: intervals that allow for it, and r within and between bases.

Checkpoints of one base err alike, so ten of two bases tell less than ten of ten. The interval
for independent rewarders is then too narrow: of 14 rewarders from 4 bases it covers as little as
72 in 100. From five bases on each base is left out in turn (a jackknife over bases, Student's t
with one degree of freedom less than there are bases, on Fisher's scale) and the wider of the two
intervals is read. With fewer bases no interval holds. A test of r is wrong in the same way, so p is
that of the same jackknife, and there is none with fewer bases. Ranks have neither.
"""

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bon.analysis.correlation.measured import Measured
from bon.analysis.estimators import resampling
from bon.analysis.estimators.resampling import estimate, nothing
from bon.analysis.results import ENOUGH_BASES, Estimate, Families, Record
from bon.analysis.results.phrasing import bounded

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
T = TypeVar("T", bound=Record)


def bases(m: Measured) -> Ints | None:
    """(R): the base of each rewarder, or None where no two share one that is known."""
    known = [f or f"\0{name}" for f, name in zip(m.families, m.names, strict=False)]
    names = list(dict.fromkeys(known))
    if not known or len(names) == len(known):
        return None
    return np.array([names.index(f) for f in known], dtype=np.int64)


def clustered(
    m: Measured, base: Ints, read: Estimate, level: float
) -> tuple[Estimate, float | None]:
    """The interval and the p of Pearson's r that allow for shared bases; r alone for few bases.

    Args:
        m: the rewarders.
        base: (R) codes of their bases.
        read: r with the interval for independent rewarders.
        level: of the interval.
    """
    count = int(base.max()) + 1
    if count < ENOUGH_BASES or read.value is None or read.low is None or read.high is None:
        return without_bounds(read), None
    r = resampling.pearson_among(m.x, m.y, base != np.arange(count)[:, None])
    z = np.arctanh(np.clip(r, -0.9999999, 0.9999999))
    error = np.sqrt((count - 1) / count * ((z - z.mean()) ** 2).sum())
    half = special.stdtrit(count - 1, (1 + level) / 2) * error
    middle = np.arctanh(np.clip(read.value, -0.9999999, 0.9999999))
    low = min(float(np.tanh(middle - half)), read.low)
    high = max(float(np.tanh(middle + half)), read.high)
    p = 2 * special.stdtr(count - 1, -(abs(middle) / error)) if error > 0 else 0.0
    return estimate(read.value, low, high, read.n, "jackknife over bases"), float(p)


def without_bounds(found: Estimate) -> Estimate:
    """A number whose interval would take rewarders of one base for independent."""
    return estimate(found.value, None, None, found.n, "none")


def untested(record: T) -> T:
    """A record without bounds and p, which take rewarders of one base for independent."""
    found = {name: getattr(record, name) for name in type(record).model_fields}
    update: dict[str, Estimate | None] = {
        name: without_bounds(value) for name, value in found.items() if isinstance(value, Estimate)
    }
    if "p_value" in found:
        update["p_value"] = None
    return record.model_copy(update=update)


def families(m: Measured, held: Estimate, level: float) -> Families | None:
    """What rewarders that share bases say; None where none do. `held`: r as `clustered` has it."""
    base = bases(m)
    if base is None:
        return None
    sizes = np.bincount(base)
    count = len(sizes)
    x, y = (np.bincount(base, weights=v) / sizes for v in (m.x, m.y))
    inner, outer = nothing(len(base)), nothing(count)
    if len(base) - count >= 3:
        inner = _fisher(m.x - x[base], m.y - y[base], len(base) - count + 1, level)
    if count >= 3:
        outer = _fisher(x, y, count, level)
    return Families(
        num_families=count,
        largest=int(sizes.max()),
        interval=held,
        within=inner,
        between=outer,
        sentence=_sentence(count, len(base), inner, outer),
    )


def _fisher(x: Floats, y: Floats, size: int, level: float) -> Estimate:
    """r with Fisher's interval, as of `size` points."""
    r = float(resampling.pearson_rows(x, y))
    return estimate(r, *resampling.fisher_interval(r, size, level), size, "fisher")


def _sentence(count: int, rewarders: int, inner: Estimate, outer: Estimate) -> str:
    text = f"{rewarders} rewarders from {count} bases"
    few = count < ENOUGH_BASES
    if few:
        one = "one base" if count == 1 else f"{count} bases"
        text += (
            " do not tell what others would do: an interval of r holds from "
            f"{ENOUGH_BASES} bases on, and {one} cannot carry a yes"
        )
    parts = []
    if inner.value is not None:
        parts.append(f"within bases r is {bounded(inner)}")
    if outer.value is not None:
        parts.append(f"between them {bounded(outer)}")
    if not parts:
        return f"{text}."
    return f"{text}{'.' if few else ':'} {_capital(parts, few)}."


def _capital(parts: list[str], first: bool) -> str:
    said = ", ".join(parts)
    return said[0].upper() + said[1:] if first else said
