"""Group-sequential tests that settle rewarders before all questions are judged.

Questions come in a random order, with a few interim analyses on the way. `best`: a rewarder is
dropped once another remaining one is distinguishably better. `beats-majority`: it is settled once
it is distinguishably above or below majority vote.

The bounds are those of O'Brien and Fleming (1979, Biometrics 35, 549-556): C √(K/k) for the z of
analysis k of K (a constant bound of 1.96 tested twenty times errs in 25 of 100 studies). The error
rate is divided by the number of comparisons (Bonferroni), so all decisions hold together. Means
that are not quite normal yet are met by Student's t.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from scipy import special

from bon.analysis.correlation.paired_accuracies import errors_of_means
from bon.analysis.results import Decide
from bon.choosing.opinion import Floats

State = Literal["in", "dropped", "above", "below"]

NODES = 160  # of the quadrature; C is accurate to 1e-6


@dataclass(frozen=True)
class Outcome:
    """State of one rewarder at the analysis (from 1) that settled it, or at the last one.

    `difference`: from rewarder `against` (an index), or from majority vote. `half_width`: of its
    repeated confidence interval (Jennison and Turnbull 1989), valid at all analyses together.
    """

    state: State
    look: int
    difference: float | None = None
    half_width: float | None = None
    against: int | None = None


@dataclass(frozen=True)
class InterimTest:
    """Outcomes of the rewarders after `taken` analyses; `over`: no more are needed.

    `upto` (R): the analysis up to whose questions each rewarder must be judged.
    """

    outcomes: tuple[Outcome, ...]
    taken: int
    over: bool
    upto: tuple[int, ...]


def interim_test(
    values: Floats, vote: Floats, ends: tuple[int, ...], decide: Decide, alpha: float
) -> InterimTest:
    """Run every interim analysis that the judged questions allow.

    Args:
        values: (Q, R) value of each rewarder's choice, questions in the order of judging; NaN if
            not judged.
        vote: (Q) value of majority vote.
        ends: questions up to each analysis; the last one is Q.
        decide: what to decide.
        alpha: probability of any false decision.
    """
    count = values.shape[1]
    inside = np.ones(count, dtype=bool)
    outcomes = [Outcome("in", 0)] * count
    compare = _with_each_other if decide == "best" else _with_the_vote
    least = 1 if decide == "best" else 0  # rewarders that remain when all is decided
    taken = 0
    for look, (end, bound) in enumerate(
        zip(ends, _bounds(ends, decide, count, alpha), strict=True), 1
    ):
        judged = values[:end, inside]
        if np.isnan(judged).any():
            break
        taken, rows = look, np.flatnonzero(inside)
        for row, (state, difference, error, other) in zip(
            rows, compare(judged, vote[:end], bound), strict=True
        ):
            half = error * -special.stdtrit(max(end - 1, 1), special.ndtr(-bound)) + 1 / end
            outcomes[row] = Outcome(
                state,
                look,
                difference,
                float(half) if np.isfinite(half) and half < 1 else None,
                None if other is None else int(rows[other]),
            )
            inside[row] = state == "in"
        if inside.sum() <= least:
            break
    over = taken == len(ends) or (taken > 0 and int(inside.sum()) <= least)
    upto = tuple(o.look if over or o.state != "in" else taken + 1 for o in outcomes)
    return InterimTest(tuple(outcomes), taken, over, upto)


def interim_ends(questions: int, looks: int) -> tuple[int, ...]:
    """Return the number of questions up to each of equally spaced interim analyses."""
    count = min(looks, questions)
    return tuple(round(questions * (k + 1) / count) for k in range(count))


def comparisons(rewarders: int, decide: Decide) -> int:
    """Count the differences that are tested."""
    return max(rewarders * (rewarders - 1) // 2 if decide == "best" else rewarders, 1)


@lru_cache(maxsize=64)
def obrien_fleming(looks: int, alpha: float) -> float:
    """Return C, the bound of |z| at the last of equally spaced analyses.

    A walk of `looks` standard normal steps is tested against the constant bound C √looks, so the
    probability of staying inside follows step by step (Armitage, McPherson and Rowe 1969).
    """
    from scipy import optimize  # takes a fifth of a second to import

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


Compared = tuple[State, float, float, int | None]
"""State, difference, its standard error, and the column it is from."""


def _with_each_other(judged: Floats, _vote: Floats, bound: float) -> list[Compared]:
    """Compare each column with the one that is most surely better."""
    means, errors = judged.mean(axis=0), errors_of_means(judged)
    better = _z(means[None, :] - means[:, None], errors, len(judged))  # column minus row
    np.fill_diagonal(better, -np.inf)
    results: list[Compared] = []
    for row, z in enumerate(better):
        other = int(np.argmax(z))
        state: State = "dropped" if z[other] >= bound else "in"
        results.append((state, float(means[row] - means[other]), float(errors[row, other]), other))
    return results


def _with_the_vote(judged: Floats, vote: Floats, bound: float) -> list[Compared]:
    gaps = judged - vote[:, None]
    means, errors = gaps.mean(axis=0), np.zeros(gaps.shape[1])
    if len(gaps) > 1:
        errors = gaps.std(axis=0, ddof=1) / np.sqrt(len(gaps))
    z = _z(means, errors, len(gaps))
    states: list[State] = ["above" if x >= bound else "below" if x <= -bound else "in" for x in z]
    return [(s, float(m), float(e), None) for s, m, e in zip(states, means, errors, strict=True)]


def _z(difference: Floats, errors: Floats, questions: int) -> Floats:
    """Return the normal deviate as rare as Student's t; zero if nothing varies.

    Differences are shrunk by one question (the continuity correction of McNemar's test).
    """
    known = np.nan_to_num(errors) > 1e-12
    shrunk = np.maximum(np.abs(difference) - 1 / questions, 0.0)
    t = np.sign(difference) * np.where(known, shrunk / np.where(known, errors, 1.0), 0.0)
    tail = special.stdtr(max(questions - 1, 1), -np.abs(t))
    return np.asarray(np.sign(t) * -special.ndtri(np.clip(tail, 1e-300, 0.5)))
