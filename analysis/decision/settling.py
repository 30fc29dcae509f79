"""Which rewarders can be settled before all questions were judged, without erring more often.

Questions come in a random order, and are looked at a few times on the way. `best`: a rewarder is
dropped where another one that is still in is distinguishably better. `beats-majority`: it is
settled where it is distinguishably above or below majority vote.

Looking often and stopping at the first difference errs often (a bound of 1.96 looked at twenty
times: in 25 of 100 studies without any difference). The bounds here are those of O'Brien and
Fleming (1979, Biometrics 35, 549-556): C √(K/k) for the z of look k of K, high at first and at the
end hardly above that of a single test. Under the null a difference of normal means crosses one of
them with a chance that is divided by the number of comparisons (Bonferroni), so all that is settled
holds together. Means that are not quite normal yet are met by Student's t.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bon.analysis.correlation.measured import errors_of_means
from bon.analysis.results import Decide

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

State = Literal["in", "dropped", "above", "below"]

NODES = 160  # of the quadrature; C is right to 1e-6


@dataclass(frozen=True)
class Settled:
    """Where one rewarder stands.

    `state`: `in` as long as nothing is settled. `look`: the one that settled it (from 1), or the
    last that was taken. `difference`: from `against` (a place among the rewarders), or from
    majority vote; None before the first look. `reach`: half of its interval, which holds at all
    looks together (repeated confidence intervals, Jennison and Turnbull 1989).
    """

    state: State
    look: int
    difference: float | None = None
    reach: float | None = None
    against: int | None = None


@dataclass(frozen=True)
class Looked:
    """What looks settled. `taken`: looks that could be taken; `over`: no more are to be taken.

    `upto` (R): the look up to whose questions each rewarder is to be judged.
    """

    each: tuple[Settled, ...]
    taken: int
    over: bool
    upto: tuple[int, ...]


def look(
    values: Floats, vote: Floats, ends: tuple[int, ...], decide: Decide, alpha: float
) -> Looked:
    """Take every look that the judged questions allow.

    Args:
        values: (Q, R) what each rewarder's choice is worth, questions in the order of asking; NaN
            where it was not judged.
        vote: (Q) what majority vote is worth.
        ends: questions up to each look; the last one is Q.
        decide: what is asked.
        alpha: the chance to settle anything that is not so.
    """
    count = values.shape[1]
    inside = np.ones(count, dtype=bool)
    each = [Settled("in", 0)] * count
    taken = 0
    for place, (end, bound) in enumerate(
        zip(ends, _bounds(ends, decide, count, alpha), strict=True)
    ):
        seen = values[:end, inside]
        if np.isnan(seen).any():
            break
        taken = place + 1
        rows = np.flatnonzero(inside)
        judge = _against_each_other if decide == "best" else _against_the_vote
        for row, found in zip(rows, judge(seen, vote[:end], bound), strict=True):
            state, difference, error, other = found
            against = None if other is None else int(rows[other])
            reach = error * -special.stdtrit(max(end - 1, 1), special.ndtr(-bound)) + 1 / end
            known = float(reach) if np.isfinite(reach) and reach < 1 else None
            each[row] = Settled(state, taken, difference, known, against)
            inside[row] = state == "in"
        if _over(inside, decide):
            break
    over = taken == len(ends) or (taken > 0 and _over(inside, decide))
    upto = tuple(one.look if over or one.state != "in" else taken + 1 for one in each)
    return Looked(tuple(each), taken, over, upto)


def ends_of(questions: int, looks: int) -> tuple[int, ...]:
    """Questions up to each of so many looks of equal size."""
    most = min(looks, questions)
    return tuple(round(questions * (k + 1) / most) for k in range(most))


def comparisons(rewarders: int, decide: Decide) -> int:
    """How many differences are looked at."""
    return max(rewarders * (rewarders - 1) // 2 if decide == "best" else rewarders, 1)


@lru_cache(maxsize=64)
def obrien_fleming(looks: int, alpha: float) -> float:
    """C: the bound of |z| at the last of so many equal looks, crossed at any with this chance.

    As a walk of `looks` standard normal steps is tested against one bound, C √looks, the chance to
    stay inside follows step by step (Armitage, McPherson and Rowe 1969).
    """
    from scipy import optimize  # a fifth of a second that a run without looks is spared

    nodes, weights = np.polynomial.legendre.leggauss(NODES)

    def inside(c: float) -> float:
        wall = c * np.sqrt(looks)
        at = wall * nodes
        density = np.exp(-0.5 * at**2) / np.sqrt(2 * np.pi)
        step = np.exp(-0.5 * (at[:, None] - at) ** 2) / np.sqrt(2 * np.pi) * (wall * weights)
        for _ in range(looks - 1):
            density = step @ density
        return float((wall * weights) @ density)

    single = float(special.ndtri(1 - alpha / 2))
    return float(optimize.brentq(lambda c: 1 - inside(c) - alpha, single - 1e-9, single + 1.0))


def _bounds(ends: tuple[int, ...], decide: Decide, rewarders: int, alpha: float) -> Floats:
    c = obrien_fleming(len(ends), alpha / comparisons(rewarders, decide))
    return c * np.sqrt(ends[-1] / np.array(ends, dtype=float))


def _over(inside: NDArray[np.bool_], decide: Decide) -> bool:
    return int(inside.sum()) <= (1 if decide == "best" else 0)


Found = tuple[State, float, float, int | None]


def _against_each_other(seen: Floats, _vote: Floats, bound: float) -> list[Found]:
    """Of each column: how far from the one that is most surely better, or else from the best."""
    means, errors = seen.mean(axis=0), errors_of_means(seen)
    better = _z(means[None, :] - means[:, None], errors, len(seen))  # the column than the row
    np.fill_diagonal(better, -np.inf)
    found: list[Found] = []
    for row, z in enumerate(better):
        other = int(np.argmax(z))
        state: State = "dropped" if z[other] >= bound else "in"
        found.append((state, float(means[row] - means[other]), float(errors[row, other]), other))
    return found


def _against_the_vote(seen: Floats, vote: Floats, bound: float) -> list[Found]:
    gaps = seen - vote[:, None]
    means = gaps.mean(axis=0)
    errors = (
        gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps)) if len(gaps) > 1 else np.zeros_like(means)
    )
    z = _z(means, errors, len(gaps))
    states: list[State] = ["above" if x >= bound else "below" if x <= -bound else "in" for x in z]
    return [(s, float(m), float(e), None) for s, m, e in zip(states, means, errors, strict=True)]


def _z(difference: Floats, errors: Floats, questions: int) -> Floats:
    """The normal deviate that is as rare as Student's t; zero where nothing varies.

    Differences are shrunk by one question (the continuity correction of McNemar's test): four
    questions that all speak for one side are no more than that, however little else varies.
    """
    known = np.nan_to_num(errors) > 1e-12
    rest = np.maximum(np.abs(difference) - 1 / questions, 0.0)
    t = np.sign(difference) * np.where(known, rest / np.where(known, errors, 1.0), 0.0)
    rare = special.stdtr(max(questions - 1, 1), -np.abs(t))
    return np.asarray(np.sign(t) * -special.ndtri(np.clip(rare, 1e-300, 0.5)))
