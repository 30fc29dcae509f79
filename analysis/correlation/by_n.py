"""Does r grow with n? The primary correlation at every n that all its rewarders have."""

from dataclasses import replace

import numpy as np

from bon.analysis.correlation.coefficients import coefficient, jointly
from bon.analysis.correlation.measured import Label, Measured
from bon.analysis.estimators.parallel import each
from bon.analysis.estimators.replay import Replay
from bon.analysis.estimators.resampling import Draws, Floats32
from bon.analysis.results import CorrelationAtN, CorrelationByN, Options
from bon.analysis.results.phrasing import coefficient as written

DRAWS = 2000  # enough for a line of intervals


def by_n(
    label: Label, measured: Measured, chosen: list[Replay], draws: Draws, options: Options
) -> CorrelationByN | None:
    """r at each n ≥ 2 (at n = 1 every rewarder has pass@1), with the interval to read."""
    # An estimate from fewer questions is noisier, and noise alone would lower r.
    assert label.n is not None
    shared = set.intersection(*(set(replay.comparable(label.n)) for replay in chosen))
    ns = sorted(n for n in shared if n >= 2)
    quick = options.model_copy(update={"draws": min(options.draws, DRAWS)})
    measured = replace(measured, x_draws=_first(measured.x_draws))
    draws = Draws(draws.counts[:DRAWS])
    joint = jointly(measured, quick)
    if joint is not None:
        _ = joint.x.ranks  # once, before the threads that share it

    def at(n: int) -> CorrelationAtN:
        values = np.stack([replay.at(n) for replay in chosen], axis=1)
        at_n = _with_y(measured, values, draws)
        mine = None if joint is None else joint.with_y(at_n)
        pearson, spearman = (
            coefficient(at_n, name, mine, quick, p=False) for name in ("pearson", "spearman")
        )
        return CorrelationAtN(n=n, pearson=pearson.estimate, spearman=spearman.estimate)

    points = each(at, ns)
    known = [p for p in points if p.pearson.value is not None]
    if not known:
        return None
    return CorrelationByN(
        policy=label.policy,
        benchmark=label.benchmark,
        axis=label.axis,
        leaks=label.leaks,
        points=tuple(points),
        sentence=_sentence(known),
    )


def _first(draws: Floats32 | None) -> Floats32 | None:
    return None if draws is None else draws[:, :DRAWS]


def _with_y(m: Measured, values: np.ndarray, draws: Draws) -> Measured:
    return replace(m, y=values.mean(axis=0), y_draws=draws.means(values))


def _sentence(points: list[CorrelationAtN]) -> str:
    first, last = points[0], points[-1]
    if len(points) == 1:
        return f"r is {written(first.pearson.value)} at n = {first.n}."
    change = (last.pearson.value or 0) - (first.pearson.value or 0)
    moves = "hardly changes" if abs(change) < 0.05 else "grows" if change > 0 else "falls"
    return (
        f"r {moves} with n: {written(first.pearson.value)} at n = {first.n}, "
        f"{written(last.pearson.value)} at n = {last.n}."
    )
