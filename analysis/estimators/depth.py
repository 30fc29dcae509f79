"""How far n may go: accuracy against n, and where it peaks.

Accuracy at every n is the exact mean over subsets of the pool (`subsets.best_of_n`);
the peak's bounds come from the resampled questions. Nothing is said of n beyond the pool: on the
miniature log-linear fits to n ≤ 8 overshoot n = 64 by 17 to 22 points, and no fit beats the last
value.
"""

from collections.abc import Iterator

import numpy as np

from bon.analysis.data.arrays import Pool, Run, opinion
from bon.analysis.estimators.baselines import baseline_replays
from bon.analysis.estimators.replay import Setting
from bon.analysis.estimators.resampling import Draws, draw, estimate, from_draws
from bon.analysis.results import CurvePoint, DepthCurve, Estimate, Options
from bon.analysis.results.phrasing import count, interval, points
from bon.choosing.opinion import Floats, Ints, Opinion
from bon.choosing.subsets import best_of_n

METHOD = "questions"


def depth(run: Run, options: Options) -> tuple[DepthCurve, ...]:
    """Return a curve for every policy and every rewarder that scored its whole pool."""
    curves: list[DepthCurve] = []
    for pool in run.pools.values():
        draws = draw(len(pool.rows), options.draws, options.seed, "questions")
        known = ((name, opinion(run, pool.located, name)) for name in run.rewarders)
        opinions = {
            name: o
            for name, o in known
            if o is not None and o.kind == "scores" and (o.complete | pool.constant).all()
        }
        curves += _curves(pool, opinions, draws, options)
    return tuple(curves)


def _curves(
    pool: Pool, opinions: dict[str, Opinion], draws: Draws, options: Options
) -> Iterator[DepthCurve]:
    setting, size = Setting.of(pool, pool.size, options), pool.size
    ns = np.array(sorted({*(2**k for k in range(size.bit_length()) if 2**k <= size), size}))
    vote = next(r for r in baseline_replays(setting) if r.rewarder == "majority")
    votes = vote.values[:, [vote.ns.index(n) for n in ns]]
    values: dict[str, Floats] = {}
    for name, o in opinions.items():
        assert o.scores is not None
        values[name] = best_of_n(o.scores, pool.correct, ns.tolist())
    voted = draws.means(votes).astype(float)
    for name, v in {**values, "majority": votes}.items():
        gains = v.mean(axis=0) - votes.mean(axis=0)
        yield _curve(pool.policy, name, ns, v, gains, voted, draws, options.level)


def _curve(
    policy: str,
    name: str,
    ns: Ints,
    values: Floats,
    gains: Floats,
    voted: Floats,
    draws: Draws,
    level: float,
) -> DepthCurve:
    """Return the curve of values (Q, N) at `ns` (N), with gains (N) over votes drawn (N, B)."""
    means, drawn = values.mean(axis=0), draws.means(values).astype(float)
    accuracies = from_draws(means, drawn, len(values), METHOD, level)
    peak, most = peak_of(ns, means, drawn, level, len(values))
    top = list(ns).index(int(peak.value or 1))
    changes = np.append(gains, means[-1] - means[top])
    changed = np.vstack([drawn - voted, drawn[-1] - drawn[top]])
    *over_vote, fall = from_draws(changes, changed, len(values), METHOD, level, proportion=False)
    behind = [(gain.high or 0) < 0 for gain in over_vote]
    below = next((int(n) for k, n in enumerate(ns) if all(behind[k:])), None)
    return DepthCurve(
        policy=policy,
        rewarder=name,
        num_questions=len(values),
        points=tuple(
            CurvePoint(n=int(n), accuracy=accuracy)
            for n, accuracy in zip(ns, accuracies, strict=True)
        ),
        peak=peak,
        most=most,
        sentence=_sentence(name, int(ns[-1]), peak, most, fall, below),
    )


def peak_of(
    ns: Ints, means: Floats, drawn: Floats, level: float, questions: int
) -> tuple[Estimate, int | None]:
    """Return the n of the highest mean (N), with bounds, and the upper bound as a limit.

    Comparisons with the best (Hsu 1981, Annals of Statistics 9, 1026-1034): an n stays possible
    unless another is better by more than the largest of the centred differences in draws (N, B)
    exceeds at `level`. The true peak is then among them with probability `level`, on plateaus too,
    where the peaks of single draws scatter too little. The limit is None where the last n is one.
    """
    possible = []
    for k, n in enumerate(ns):
        others = np.arange(len(ns)) != k
        gap, moved = (means - means[k])[others], (drawn - drawn[k])[others]
        spread = np.maximum(moved.std(axis=1), 1e-9)
        most = ((moved - gap[:, None]) / spread[:, None]).max(axis=0, initial=-np.inf)
        if (gap / spread).max(initial=-np.inf) <= np.quantile(most, level, method="higher"):
            possible.append(n)
    value = ns[np.argmax(means > means.max() - 1e-12)]
    peak = estimate(value, min([*possible, value]), max([*possible, value]), questions, METHOD)
    most_n = int(peak.high or value)
    return peak, None if most_n == ns[-1] else most_n


def _sentence(
    name: str, last: int, peak: Estimate, most: int | None, fall: Estimate, below: int | None
) -> str:
    at = count(peak.value) + interval(peak, count)
    if most is None:
        text = f"{name}: we cannot confirm a decline by n = {last}; accuracy peaks at n = {at}"
    else:
        text = (
            f"{name}: do not sample more than {most}. Accuracy peaks at n = {at} and differs by "
            f"{points(fall.value)} at n = {last}"
        )
    return f"{text}; from n = {below} on, majority vote is better" if below else text
