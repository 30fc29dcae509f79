"""Count the judge calls of races: `python -m tools.judge_calls [--questions 400 ...]`.

Simulated judges of six qualities compare 16 candidates with different texts. For each: agreement
with itself and with the truth, and calls over those of a full round robin in both orders, also
with a tenth of the questions judged in full. Every value is checked against the full round robin.
`replayed` does the same with a run's judgements (tools/bench/bench_calls.py).
"""

import argparse
from dataclasses import astuple, dataclass

import numpy as np
from numpy.typing import NDArray

from bon.choosing.opinion import Opinion
from bon.choosing.race import bounds, contenders, next_matches

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

COMPLETE = 0.1
"""The share of questions that `judging.complete` judges in full unless told."""

JUDGES = (
    (0.05, 1.5, 0.6),
    (0.25, 0.9, 0.6),
    (0.45, 0.7, 0.6),
    (0.7, 0.5, 0.6),
    (1, 0.4, 0.5),
    (1.4, 0.3, 0.5),
)
"""Sensitivity, favour of the first response and noise of each simulated judge."""


@dataclass(frozen=True)
class Cost:
    """Comparisons of texts made, of those of a full round robin.

    `mixed`: comparisons for judging every question in full, without constant ones.
    """

    comparisons: int
    full: int
    mixed: int

    def __add__(self, other: "Cost") -> "Cost":
        """Add two costs."""
        sums = (a + b for a, b in zip(astuple(self), astuple(other), strict=True))
        return Cost(*sums)

    def ratio(self, complete: float = 0.0) -> float:
        """Return the share of comparisons made, with `complete` of the questions in full."""
        comparisons = (1 - complete) * self.comparisons + complete * self.mixed
        return comparisons / max(self.full, 1)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("--candidates", type=int, default=16)
    parser.add_argument("--pairs", type=int, default=4, help="comparisons per round")
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    results = simulated(a.questions, a.candidates, a.pairs, a.seed)
    print(f"{a.questions} questions × {a.candidates}, {a.pairs} pairs a round")
    print("judge  consistent  pairs right  calls   +tenth")
    for number, judge in enumerate(results):
        cells = "  ".join(f"{ratio:6.3f}" for ratio in judge.ratios())
        print(f"{number:5d}  {judge.consistent:10.2f}  {judge.right:11.2f}  {cells}")
    mean = np.mean([judge.ratios() for judge in results], axis=0)
    print(f"{'mean':31s}  " + "  ".join(f"{ratio:6.3f}" for ratio in mean))


def race(prefer: Floats, copies: Ints, classes: Ints, pairs: int) -> Cost:
    """Race every question on known verdicts, and check its value against the full round robin.

    Args:
        prefer: (Q, L, L) preferences among texts, both orders and all votes together.
        copies: (Q, L) candidates with each text; 0 pads a question with fewer texts.
        classes: (Q, L) within which it does not matter who is chosen.
        pairs: comparisons per round.
    """
    comparisons = full = mixed = 0
    for opinion, count, code in zip(prefer, copies, classes, strict=True):
        real = np.flatnonzero(count)
        truth, weights, kinds = opinion[np.ix_(real, real)], count[real], code[real]
        size = int(weights.sum())
        full += size * (size - 1) // 2
        if len(np.unique(kinds)) > 1:
            mixed += len(real) * (len(real) - 1) // 2
        observed = np.where(np.eye(len(real), dtype=bool), 0.5, np.nan)
        while matches := next_matches(observed, weights, kinds, pairs):
            for a, b in matches:
                observed[a, b], observed[b, a] = truth[a, b], truth[b, a]
            comparisons += len(matches)
        best = contenders(*bounds(truth, weights))
        remaining = contenders(*bounds(observed, weights))
        assert (remaining[best]).all(), "a text that may be chosen was ruled out"
        settled = len(np.unique(kinds[remaining])) == 1
        assert not np.isnan(observed).any() or settled, "stopped too early"
    return Cost(comparisons, full, mixed)


@dataclass(frozen=True)
class Simulated:
    """One simulated judge with the cost of its races.

    `consistent`: share of pairs on which its two orders agree; `right`: share of pairs of a right
    and a wrong candidate that it orders correctly. `cost`: of races that end when the remaining
    candidates share an answer.
    """

    consistent: float
    right: float
    cost: Cost

    def ratios(self) -> list[float]:
        """Return the share of comparisons made, also with a tenth of the questions in full."""
        return [self.cost.ratio(complete) for complete in (0, COMPLETE)]


def simulated(questions: int, candidates: int, pairs: int, seed: int = 0) -> list[Simulated]:
    """Race each of `JUDGES` with `pairs` comparisons per round."""
    answers, plausible = pool(questions, candidates, seed)
    right = (answers == 0).astype(np.int64)
    copies = np.ones(answers.shape, dtype=np.int64)
    mixed = (right[:, :, None] > right[:, None, :]).astype(bool)
    results = []
    for number, judge in enumerate(JUDGES):
        prefer, consistent = verdicts(answers, plausible, *judge, seed=seed + number + 1)
        cost = race(prefer, copies, answers, pairs)
        results.append(Simulated(consistent, float(prefer[mixed].mean()), cost))
    return results


def replayed(opinion: Opinion, classes: Ints, pairs: int) -> Cost:
    """Replay a run's judgements of all pairs as a race; classes (Q, M)."""
    assert opinion.prefer is not None
    about = opinion.candidates
    copies = np.where(about.is_first_copy, about.same_text.sum(axis=2), 0)
    free = np.asarray(classes.min(axis=1) == classes.max(axis=1)) & ~opinion.complete
    assert (opinion.complete | free).all(), "needs all pairs"
    return race(np.where(free[:, None, None], 0.5, opinion.prefer), copies, classes, pairs)


# ------------------------------------------------------------------ simulation


def pool(questions: int, candidates: int, seed: int) -> tuple[Ints, Floats]:
    """Draw answers (Q, M) among ten, 0 the right one, and plausibilities (Q, 10)."""
    rng = np.random.default_rng(seed)
    ease = rng.beta(0.45, 0.70, questions)[:, None]
    chance = np.concatenate([ease, (1 - ease) * rng.dirichlet(np.full(9, 0.25), questions)], axis=1)
    drawn = rng.random((questions, candidates))[:, :, None] > chance.cumsum(axis=1)[:, None, :-1]
    return drawn.sum(axis=2).astype(np.int64), chance


def verdicts(
    answers: Ints, plausible: Floats, sense: float, favour: float, noise: float, seed: int
) -> tuple[Floats, float]:
    """Simulate preferences (Q, M, M), one verdict per order, and how often the orders agree.

    The judge sees the truth (by `sense`, more on some questions), plausibility and style; the odds
    of "first" are logistic and shifted by `favour`.
    """
    rng = np.random.default_rng(seed)
    q, m = answers.shape
    liking = rng.normal(0, 0.9, plausible.shape) + 0.2 * np.log(plausible + 0.02)
    clarity = rng.gamma(2.0, 0.5, (q, 1))
    value = np.take_along_axis(liking, answers, axis=1) + sense * clarity * (answers == 0)
    value += rng.normal(0, 0.6, (q, m))
    lead = (value[:, :, None] - value[:, None, :] + favour) / noise
    first: Bools = np.asarray(rng.random((q, m, m)) < 1 / (1 + np.exp(-lead)))
    prefer = np.asarray((first.astype(float) + 1 - first.transpose(0, 2, 1)) / 2)
    distinct = ~np.eye(m, dtype=bool)
    prefer[:, ~distinct] = 0.5
    return prefer, float(np.mean(prefer[:, distinct] != 0.5))


if __name__ == "__main__":
    main()
