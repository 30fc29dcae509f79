"""How many judge calls does a race need? `python -m bon.analysis.calls [--questions 400 ...]`.

Simulated judges of six qualities compare 16 candidates with different texts. Of each: how far it
agrees with itself and the truth, and calls over those of a full round robin in both orders, with
gold (`correct`) and without (`answer`), and with a tenth of the questions judged in full. The value
of every question is checked against the full round robin's. `replayed` does the same with the
judgements of a run (tests/bench/bench_calls.py).
"""

import argparse
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bon.choosing.opinion import Opinion
from bon.choosing.race import bounds, contenders, next_matches, projected_winner

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

COMPLETE = 0.1
"""The share of questions that `judging.race.complete` judges in full unless told."""

AUDIT = 0.08
"""The share of races that `judging.race.audit` lets go on unless told."""

JUDGES = (
    (0.05, 1.5, 0.6),
    (0.25, 0.9, 0.6),
    (0.45, 0.7, 0.6),
    (0.7, 0.5, 0.6),
    (1, 0.4, 0.5),
    (1.4, 0.3, 0.5),
)
"""Of each simulated judge: its sense of right and wrong, favour of the first shown, and noise."""


@dataclass(frozen=True)
class Cost:
    """Comparisons of texts that a judge made, of those that all candidates would make.

    `mixed`: those that judging every question in full would take, constant ones left out.
    """

    made: int
    full: int
    mixed: int

    def __add__(self, other: "Cost") -> "Cost":
        """Both together."""
        return Cost(self.made + other.made, self.full + other.full, self.mixed + other.mixed)

    def ratio(self, complete: float = 0.0) -> float:
        """The share that is made; `complete` of the questions in full."""
        made = (1 - complete) * self.made + complete * self.mixed
        return made / max(self.full, 1)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--questions", type=int, default=400)
    parser.add_argument("--candidates", type=int, default=16)
    parser.add_argument("--pairs", type=int, default=4, help="comparisons per round")
    parser.add_argument("--lead", type=float, help="also races that stop at this lead")
    parser.add_argument("--seed", type=int, default=0)
    a = parser.parse_args()
    found = simulated(a.questions, a.candidates, a.pairs, a.seed, a.lead)
    print(f"{a.questions} questions × {a.candidates}, {a.pairs} pairs a round")
    print("judge  consistent  pairs right  correct   +tenth  answer   +tenth")
    for number, judge in enumerate(found):
        shown = "  ".join(f"{ratio:6.3f}" for ratio in judge.ratios())
        print(f"{number:5d}  {judge.consistent:10.2f}  {judge.right:11.2f}  {shown}")
    mean = np.mean([judge.ratios() for judge in found], axis=0)
    print(f"{'mean':31s}  " + "  ".join(f"{ratio:6.3f}" for ratio in mean))
    if a.lead is not None:
        print(f"stopped at a lead of {a.lead:g}, {AUDIT:.0%} audited (error: points added)")
        print("judge  correct  stopped  changed  error")
        for number, early in enumerate(judge.early for judge in found):
            assert early is not None
            shares = early.stopped / early.questions, early.changed / early.questions
            shown = "  ".join(f"{x:7.4f}" for x in (early.ratio(AUDIT), *shares))
            print(f"{number:5d}  {shown}  {100 * early.error(AUDIT):.2f}")


def race(prefer: Floats, copies: Ints, classes: Ints, pairs: int) -> Cost:
    """Race every question on known verdicts, and check its worth against the full round robin.

    Args:
        prefer: (Q, L, L) preferences among texts, both orders and all votes together.
        copies: (Q, L) candidates with each text; 0 pads a question with fewer texts.
        classes: (Q, L) within which it does not matter who is chosen.
        pairs: comparisons per round.
    """
    made = full = mixed = 0
    for said, count, code in zip(prefer, copies, classes, strict=True):
        real = np.flatnonzero(count)
        truth, weights, kinds = said[np.ix_(real, real)], count[real], code[real]
        size = int(weights.sum())
        full += size * (size - 1) // 2
        if len(np.unique(kinds)) > 1:
            mixed += len(real) * (len(real) - 1) // 2
        known = np.where(np.eye(len(real), dtype=bool), 0.5, np.nan)
        while matches := next_matches(known, weights, kinds, pairs):
            for a, b in matches:
                known[a, b], known[b, a] = truth[a, b], truth[b, a]
            made += len(matches)
        best = contenders(*bounds(truth, weights))
        left = contenders(*bounds(known, weights))
        assert (left[best]).all(), "a text that may be chosen was ruled out"
        assert not np.isnan(known).any() or len(np.unique(kinds[left])) == 1, "stopped too early"
    return Cost(made, full, mixed)


@dataclass(frozen=True)
class Stopped:
    """Races that stop at a projected lead: comparisons made, and those that an audit adds to each.

    `stopped`: questions in which that was early, of all; `changed`: in which it was wrong, by how
    much of the truth (squared).
    """

    made: int
    finishing: int
    full: int
    questions: int
    stopped: int
    changed: float

    def ratio(self, audit: float) -> float:
        """The share of comparisons that is made when so many of the races go on."""
        return (self.made + audit * self.finishing) / max(self.full, 1)

    def error(self, audit: float) -> float:
        """Standard error that stopping and auditing add to an accuracy."""
        audited = max(audit * self.stopped, 1)
        variance = self.changed / max(self.stopped, 1) * (1 - audit) / audited
        return self.stopped / self.questions * float(np.sqrt(variance))


def stopped_early(prefer: Floats, right: Ints, pairs: int, lead: float) -> Stopped:
    """Races to a lead, and on until the outcome is certain; all texts differ. right (Q, M)."""
    made = finishing = full = stopped = 0
    changed = 0.0
    for truth, kinds in zip(prefer, right, strict=True):
        size = len(kinds)
        full += size * (size - 1) // 2
        copies = np.ones(size, dtype=np.int64)
        known = np.where(np.eye(size, dtype=bool), 0.5, np.nan)
        made += _asked(known, truth, kinds, pairs, lead)
        chosen = projected_winner(known, copies, kinds)
        more = _asked(known, truth, kinds, pairs)
        if more:
            low, _ = bounds(truth)
            worth = kinds[low >= low.max() - 1e-9].mean()
            finishing, stopped = finishing + more, stopped + 1
            changed += float(worth - kinds[chosen]) ** 2
    return Stopped(made, finishing, full, len(prefer), stopped, changed)


@dataclass(frozen=True)
class Simulated:
    """What one simulated judge is like, and what its races cost.

    `consistent`: share of pairs on which its two orders agree; `right`: share of its preferences
    between a right and a wrong candidate that are for the right one. `correct` and `answer`: races
    that end when all who are left are as correct, or of one answer; `early`: that stop at a lead.
    """

    consistent: float
    right: float
    correct: Cost
    answer: Cost
    early: Stopped | None

    def ratios(self) -> list[float]:
        """Shares that races make: `correct`, with a tenth judged in full, and `answer` so."""
        return [cost.ratio(full) for cost in (self.correct, self.answer) for full in (0, COMPLETE)]


def simulated(
    questions: int, candidates: int, pairs: int, seed: int = 0, lead: float | None = None
) -> list[Simulated]:
    """Races of every one of `JUDGES`, with `pairs` comparisons per round."""
    answers, plausible = pool(questions, candidates, seed)
    right = (answers == 0).astype(np.int64)
    copies = np.ones(answers.shape, dtype=np.int64)
    mixed = (right[:, :, None] > right[:, None, :]).astype(bool)
    found = []
    for number, judge in enumerate(JUDGES):
        prefer, consistent = verdicts(answers, plausible, *judge, seed=seed + number + 1)
        correct, answer = (race(prefer, copies, classes, pairs) for classes in (right, answers))
        early = None if lead is None else stopped_early(prefer, right, pairs, lead)
        share = float(prefer[mixed].mean())
        found.append(Simulated(consistent, share, correct, answer, early))
    return found


def _asked(known: Floats, truth: Floats, kinds: Ints, pairs: int, lead: float | None = None) -> int:
    made = 0
    copies = np.ones(len(kinds), dtype=np.int64)
    while matches := next_matches(known, copies, kinds, pairs, lead):
        for a, b in matches:
            known[a, b], known[b, a] = truth[a, b], truth[b, a]
        made += len(matches)
    return made


def replayed(said: Opinion, classes: Ints, pairs: int) -> Cost:
    """The race that a run's judgements, of all pairs, would have been; classes (Q, M)."""
    assert said.prefer is not None
    about = said.about
    copies = np.where(about.first_copies, about.same.sum(axis=2), 0)
    free = np.asarray(classes.min(axis=1) == classes.max(axis=1)) & ~said.complete
    assert (said.complete | free).all(), "needs all pairs"
    return race(np.where(free[:, None, None], 0.5, said.prefer), copies, classes, pairs)


# ------------------------------------------------------------------ a made-up world


def pool(questions: int, candidates: int, seed: int) -> tuple[Ints, Floats]:
    """Answers (Q, M) among ten, 0 the right one, and how plausible each answer is (Q, 10)."""
    rng = np.random.default_rng(seed)
    ease = rng.beta(0.45, 0.70, questions)[:, None]
    chance = np.concatenate([ease, (1 - ease) * rng.dirichlet(np.full(9, 0.25), questions)], axis=1)
    drawn = rng.random((questions, candidates))[:, :, None] > chance.cumsum(axis=1)[:, None, :-1]
    return drawn.sum(axis=2).astype(np.int64), chance


def verdicts(
    answers: Ints, plausible: Floats, sense: float, favour: float, noise: float, seed: int
) -> tuple[Floats, float]:
    """Preferences (Q, M, M) of a judge, one verdict an order, and how often the orders agree.

    It sees the truth (with `sense`, more on some questions), how plausible an answer is, and style,
    and says "first" with a logistic chance, more often by `favour`.
    """
    rng = np.random.default_rng(seed)
    q, m = answers.shape
    liking = rng.normal(0, 0.9, plausible.shape) + 0.2 * np.log(plausible + 0.02)
    clarity = rng.gamma(2.0, 0.5, (q, 1))
    worth = np.take_along_axis(liking, answers, axis=1) + sense * clarity * (answers == 0)
    worth += rng.normal(0, 0.6, (q, m))
    lead = (worth[:, :, None] - worth[:, None, :] + favour) / noise
    first: Bools = np.asarray(rng.random((q, m, m)) < 1 / (1 + np.exp(-lead)))
    prefer = np.asarray((first.astype(float) + 1 - first.transpose(0, 2, 1)) / 2)
    apart = ~np.eye(m, dtype=bool)
    prefer[:, ~apart] = 0.5
    return prefer, float(np.mean(prefer[:, apart] != 0.5))


if __name__ == "__main__":
    main()
