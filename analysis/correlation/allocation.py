"""Allocate judge calls to rewarders, questions, pairs and candidates (`bon plan --budget`).

Studies of other sizes are simulated from the variance components of a run or a pilot.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from bon.analysis.correlation import power
from bon.analysis.correlation.paired_accuracies import Measured
from bon.analysis.estimators.resampling import pearson_rows
from bon.analysis.results import Components, Correlation, Results, Spread
from bon.choosing.opinion import Floats

LEVEL = 0.95
REWARDERS = (6, 8, 10, 12, 14, 16, 20, 24, 30, 40)
PAIRS = (75, 150, 300, 600, 1250, 2500, 5000)
QUESTIONS = (50, 75, 100, 150, 200, 300, 400, 600, 800, 1200, 1600, 2400, 3200, 6400)


@dataclass(frozen=True)
class Size:
    """Size of a study; `questions` are those that are judged."""

    rewarders: int
    questions: int
    pairs: int
    candidates: int


@dataclass(frozen=True)
class Outlook:
    """Judge calls and expected results of a study.

    `r`: mean; `width`: median width of its interval; `regret`: half the interval of the difference
    of two rewarders' accuracies; `yes`: share of verdicts, where it was simulated.
    """

    size: Size
    calls: int
    r: float
    width: float
    regret: float
    yes: float | None = None


def components(
    correlation: Correlation, measured: Measured, at: dict[int, Floats], share: float
) -> Components | None:
    """Estimate variance between rewarders, and noise of one pair and of one question at each n.

    `at`: accuracy by question and rewarder (Q, R) at each n; `share` of the questions was judged.
    """
    noise_of = correlation.reliability
    reliable = noise_of.x.value if noise_of is not None else None
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
        own = values - values.mean(axis=1, keepdims=True)  # a hard question is hard for all
        noise = float(own.var(axis=0, ddof=1).mean()) * rewarders / (rewarders - 1)
        between = float(values.mean(axis=0).var(ddof=1)) - noise / questions
        if between > 0:
            ys.append(Spread(n=n, between=between, noise=noise * share))
    if not ys or total <= 0:
        return None
    ceiling = np.sqrt(reliable * ys[-1].between / (ys[-1].between + ys[-1].noise / judged))
    true_r = float(np.clip(pearson_rows(measured.x, measured.y) / ceiling, -0.99, 0.99))
    if np.isnan(true_r):  # every rewarder has the same Best-of-N accuracy
        return None
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
    """Judge calls of one rewarder on a pair, and on a question with `candidates`.

    `compared`: share of rewarders that compare candidates, whose calls grow quadratically.
    """

    pair: float
    question: float
    candidates: int
    compared: float

    @classmethod
    def of(cls, results: Results, parts: Components) -> "Prices":
        """Average the calls of a run over its rewarders; two calls per pair if it judged none."""
        kinds = {info.rewarder: info.kind for info in results.rewarders}
        judging = [j for j in results.judging if j.calls_candidates]
        pair = [j.calls_pairs / parts.pairs for j in results.judging if j.calls_pairs] or [2.0]
        question = [j.calls_candidates / parts.questions for j in judging] or [1.0]
        compared = [kinds.get(j.rewarder) == "pairwise" for j in judging] or [False]
        share = float(np.mean(compared))
        return cls(float(np.mean(pair)), float(np.mean(question)), parts.y[-1].n, share)

    def of_study(self, size: Size) -> int:
        """Count the judge calls of a study."""
        n, most = size.candidates, self.candidates
        together = n * (n - 1) / max(most * (most - 1), 1)
        share = self.compared * together + (1 - self.compared) * n / most
        per_rewarder = self.question * share * size.questions + self.pair * size.pairs
        return round(size.rewarders * per_rewarder)


def simulate(parts: Components, prices: Prices, size: Size) -> Outlook:
    """Simulate studies of one size."""
    y_noise = next(spread for spread in parts.y if spread.n == size.candidates).noise
    r, low, high = power.intervals(*_study(parts, size), LEVEL)
    regret = float(special.ndtri((1 + LEVEL) / 2) * np.sqrt(2 * y_noise / size.questions))
    width = float(np.median(high - low))
    return Outlook(size, prices.of_study(size), float(r.mean()), width, regret)


def _study(parts: Components, size: Size) -> tuple[Floats, Floats]:
    y = next(spread for spread in parts.y if spread.n == size.candidates)
    noise_x = parts.x.noise / parts.x.between / size.pairs
    noise_y = y.noise / y.between / size.questions
    return power.simulate(parts.true_r, size.rewarders, noise_x, noise_y)


def with_yes(parts: Components, study: Outlook) -> Outlook:
    """Add the share of studies of this size whose verdict is yes."""
    result = power.outcomes(*_study(parts, study.size), LEVEL)
    return replace(study, yes=float(result.yes.mean()))


def studies(
    parts: Components,
    prices: Prices,
    n: int,
    *,
    questions: int,
    pairs: int,
    budget: int | None = None,
) -> list[Outlook]:
    """Simulate all sizes with n candidates and at most this many questions and pairs."""
    sizes = (
        Size(rewarders, num_questions, num_pairs, n)
        for rewarders in sorted({*REWARDERS, parts.rewarders} - set(range(4)))
        for num_pairs in sorted({*PAIRS, parts.pairs, pairs})
        for num_questions in sorted({*QUESTIONS, parts.questions, questions})
        if num_questions <= questions and num_pairs <= pairs
    )
    affordable = (s for s in sizes if budget is None or prices.of_study(s) <= budget)
    return [simulate(parts, prices, size) for size in affordable]


def narrowest(outlooks: Iterable[Outlook]) -> list[Outlook]:
    """Pick the narrowest interval for each number of rewarders, then the fewest calls."""
    return _best(outlooks, lambda study: (round(study.width, 3), study.calls))


def cheapest(outlooks: Iterable[Outlook], width: float) -> list[Outlook]:
    """Pick the fewest calls for each number of rewarders, with intervals no wider than this."""
    return _best((s for s in outlooks if s.width <= width), lambda s: (s.calls, s.width))


def _best(
    outlooks: Iterable[Outlook], key: Callable[[Outlook], tuple[float, float]]
) -> list[Outlook]:
    best: dict[int, Outlook] = {}
    for study in outlooks:
        rewarders = study.size.rewarders
        if rewarders not in best or key(study) < key(best[rewarders]):
            best[rewarders] = study
    return list(best.values())
