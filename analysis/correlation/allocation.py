"""How to spend judge calls: rewarders, questions, pairs and candidates for a narrow interval of r.

A run, or a pilot of one, says how far rewarders differ on either axis and how noisy one question
and one pair are; whole studies of other sizes are simulated from that.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from bon.analysis.correlation.measured import Measured
from bon.analysis.estimators.resampling import pearson_rows
from bon.analysis.results import Components, Correlation, Results, Spread

Floats = NDArray[np.float64]

STUDIES = 300
REWARDERS = (6, 8, 10, 12, 14, 16, 20, 24, 30, 40)
PAIRS = (75, 150, 300, 600, 1250, 2500, 5000)
QUESTIONS = (50, 75, 100, 150, 200, 300, 400, 600, 800, 1200, 1600, 2400, 3200, 6400)
JACKKNIFE = 8
"""From so many rewarders on r has the jackknife's interval, as in a report; below, Fisher's."""


@dataclass(frozen=True)
class Size:
    """How large a study is. `questions`: those that are judged."""

    rewarders: int
    questions: int
    pairs: int
    candidates: int


@dataclass(frozen=True)
class Outlook:
    """What a study of some size may expect: its judge calls and what it finds.

    `r`: mean; `width`: median width of its interval. `regret`: half the interval of the
    difference of two rewarders' accuracies: how well the loss by a wrong pick is known.
    """

    size: Size
    calls: int
    r: float
    width: float
    regret: float


def components(
    correlation: Correlation, measured: Measured, at: dict[int, Floats], share: float
) -> Components | None:
    """Variance between rewarders, and noise of one pair and of one question at each n.

    Args:
        correlation: the primary one of a policy.
        measured: its axes.
        at: accuracy of each question and rewarder (Q, R) at each n.
        share: of the questions that were judged, where the others are estimated.
    """
    known = correlation.reliability
    reliable = known.x.value if known is not None else None
    if reliable is None or not reliable > 0 or len(measured.x) < 3:
        return None
    reliable = min(reliable, 1.0)
    total, pairs = float(measured.x.var(ddof=1)), measured.x_estimates[0].n
    judged, ys = 0, []
    for n, values in at.items():
        questions, rewarders = values.shape
        if questions < 2:
            return None
        judged = round(questions * share)
        apart = values - values.mean(axis=1, keepdims=True)  # a hard question is hard for all
        noise = float(apart.var(axis=0, ddof=1).mean()) * rewarders / (rewarders - 1)
        between = float(values.mean(axis=0).var(ddof=1)) - noise / questions
        if between > 0:
            ys.append(Spread(n=n, between=between, noise=noise * share))
    if not ys or total <= 0:
        return None
    ceiling = np.sqrt(reliable * ys[-1].between / (ys[-1].between + ys[-1].noise / judged))
    true_r = float(np.clip(pearson_rows(measured.x, measured.y) / ceiling, -0.99, 0.99))
    return Components(
        policy=correlation.policy,
        benchmark=correlation.benchmark,
        axis=correlation.axis,
        rewarders=len(measured.x),
        questions=judged,
        pairs=pairs,
        true_r=true_r,
        x=Spread(n=1, between=total * reliable, noise=total * (1 - reliable) * pairs),
        y=tuple(ys),
    )


@dataclass(frozen=True)
class Prices:
    """Judge calls of one rewarder on a pair, and on a question with so many candidates.

    `compared`: the share of rewarders that compare candidates, whose calls grow as their pairs.
    """

    pair: float
    question: float
    candidates: int
    compared: float

    @classmethod
    def of(cls, results: Results, found: Components) -> "Prices":
        """What a run paid, mean over its rewarders; two calls a pair where it judged none."""
        kinds = {info.rewarder: info.kind for info in results.rewarders}
        judging = [j for j in results.judging if j.calls_candidates]
        pair = [j.calls_pairs / found.pairs for j in results.judging if j.calls_pairs] or [2.0]
        question = [j.calls_candidates / found.questions for j in judging] or [1.0]
        compared = [kinds.get(j.rewarder) == "pairwise" for j in judging] or [False]
        share = float(np.mean(compared))
        return cls(float(np.mean(pair)), float(np.mean(question)), found.y[-1].n, share)

    def of_study(self, size: Size) -> int:
        """Judge calls of a study."""
        n, most = size.candidates, self.candidates
        together = n * (n - 1) / max(most * (most - 1), 1)
        share = self.compared * together + (1 - self.compared) * n / most
        per_rewarder = self.question * share * size.questions + self.pair * size.pairs
        return round(size.rewarders * per_rewarder)


def simulate(found: Components, prices: Prices, size: Size) -> Outlook:
    """Studies of one size, with random numbers that sizes share."""
    y_spread = next(spread for spread in found.y if spread.n == size.candidates)
    rng = np.random.default_rng([size.rewarders, STUDIES])
    x, rest, noise_x, noise_y = rng.normal(size=(4, STUDIES, size.rewarders))
    y = found.true_r * x + np.sqrt(1 - found.true_r**2) * rest
    x = x + np.sqrt(found.x.noise / found.x.between / size.pairs) * noise_x
    y = y + np.sqrt(y_spread.noise / y_spread.between / size.questions) * noise_y
    r, width = _read(x, y)
    regret = float(special.ndtri(0.975) * np.sqrt(2 * y_spread.noise / size.questions))
    return Outlook(size, prices.of_study(size), float(r.mean()), float(np.median(width)), regret)


def _read(x: Floats, y: Floats, level: float = 0.95) -> tuple[Floats, Floats]:
    """r of studies (S, R) and the width of its interval, as a report reads it."""
    n = x.shape[1]
    r = pearson_rows(x, y)
    z = np.arctanh(np.clip(r, -0.9999999, 0.9999999))
    if n < JACKKNIFE:
        half = np.full(len(z), special.ndtri((1 + level) / 2) / np.sqrt(n - 3))
    else:
        x, y = x - x.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)
        left = n / (n - 1)  # of a sum of squares without one point: less its own share
        sxy, sxx, syy = (
            (a * b).sum(axis=1, keepdims=True) - left * a * b for a, b in ((x, y), (x, x), (y, y))
        )
        zs = np.arctanh(np.clip(sxy / np.sqrt(sxx * syy), -0.9999999, 0.9999999))
        spread = ((zs - zs.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        half = special.stdtrit(n - 1, (1 + level) / 2) * np.sqrt((n - 1) / n * spread)
    return r, np.tanh(z + half) - np.tanh(z - half)


def studies(
    found: Components,
    prices: Prices,
    n: int,
    *,
    questions: int,
    pairs: int,
    budget: int | None = None,
) -> list[Outlook]:
    """Studies of all sizes with n candidates, of so many questions and pairs at most."""
    sizes = (
        Size(rewarders, some, compared, n)
        for rewarders in sorted({*REWARDERS, found.rewarders} - set(range(4)))
        for compared in sorted({*PAIRS, found.pairs, pairs})
        for some in sorted({*QUESTIONS, found.questions, questions})
        if some <= questions and compared <= pairs
    )
    affordable = (s for s in sizes if budget is None or prices.of_study(s) <= budget)
    return [simulate(found, prices, size) for size in affordable]


def narrowest(made: Iterable[Outlook]) -> list[Outlook]:
    """Of each number of rewarders the study with the narrowest interval; fewest calls of equals."""
    return _best(made, lambda study: (round(study.width, 3), study.calls))


def cheapest(made: Iterable[Outlook], width: float) -> list[Outlook]:
    """Of each number of rewarders the study with the fewest calls and an interval narrow enough."""
    return _best((s for s in made if s.width <= width), lambda study: (study.calls, study.width))


def _best(made: Iterable[Outlook], key: Callable[[Outlook], tuple[float, float]]) -> list[Outlook]:
    best: dict[int, Outlook] = {}
    for study in made:
        rewarders = study.size.rewarders
        if rewarders not in best or key(study) < key(best[rewarders]):
            best[rewarders] = study
    return list(best.values())
