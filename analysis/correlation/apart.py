"""Rewarders that stand far below all others: how many there are decides r, not how they differ.

Three broken rewarders among eleven that have nothing in common show r = .71, one of fourteen .50:
r says how many broken ones a collection happens to hold. Leaving one out at a time takes that
number for chance, so the interval is too wide for collections of the same make-up (it covers .99),
and one that takes the number as given is too narrow where it is chance. So none is said.

Along the sum of both standardised axes the widest gap with up to two fifths of the rewarders below
it is looked for. It counts from two standard deviations within both groups on, more with few
rewarders, where chance makes such gaps: up to 12 rewarders one in ten normal collections has it, at
14 one in fifteen, at 24 one in sixty.
"""

import numpy as np
from numpy.typing import NDArray

from bon.analysis.correlation.measured import Measured
from bon.analysis.estimators.resampling import estimate, fisher_interval, pearson_rows
from bon.analysis.results import Apart

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FEWEST = 8
"""Below, Fisher's interval is read, which broken rewarders leave as it should be."""
GAP, GAP_OF_FEW = 2.0, 22.0
MOST = 0.4
"""Of the rewarders; more are a half of them, which bon.analysis.correlation.influence looks at."""


def far_below(x: Floats, y: Floats) -> Ints:
    """Places of those of R rewarders that stand far below the others on both axes together."""
    r = len(x)
    none = np.empty(0, dtype=np.int64)
    if r < FEWEST or np.ptp(x) < 1e-12 or np.ptp(y) < 1e-12:
        return none
    height = (x - x.mean()) / x.std() + (y - y.mean()) / y.std()
    order = np.argsort(height, kind="stable")
    gaps = np.diff(height[order])
    count = int(np.argmax(gaps[: int(MOST * r)])) + 1
    low, rest = height[order[:count]], height[order[count:]]
    within = np.sqrt(
        (((low - low.mean()) ** 2).sum() + ((rest - rest.mean()) ** 2).sum()) / (r - 2)
    )
    found: Ints = order[:count] if gaps[count - 1] >= max(GAP, GAP_OF_FEW / r) * within else none
    return found


def apart(m: Measured, level: float) -> Apart | None:
    """Who stands far below, and r among the others with Fisher's interval; None where nobody."""
    low = far_below(m.x, m.y)
    if not len(low):
        return None
    rest = np.setdiff1d(np.arange(len(m.names)), low)
    r = float(pearson_rows(m.x[rest], m.y[rest]))
    bounds = fisher_interval(r, len(rest), level)
    others = estimate(r, *bounds, len(rest), "fisher")
    return Apart(rewarders=tuple(m.names[i] for i in np.sort(low)), others=others)
