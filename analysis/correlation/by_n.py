"""Does r grow with n? The primary correlation at every n that all its rewarders have."""

from dataclasses import replace

import numpy as np

from bon.analysis.correlation.coefficients import interval_to_read
from bon.analysis.correlation.measured import Label, Measured
from bon.analysis.estimators.replay import Replay
from bon.analysis.results import CorrelationAtN, CorrelationByN
from bon.analysis.results.phrasing import coefficient as written


def by_n(
    label: Label, measured: Measured, chosen: list[Replay], level: float
) -> CorrelationByN | None:
    """r at each n ≥ 2 (at n = 1 every rewarder has pass@1), with the interval to read."""
    # An estimate from fewer questions is noisier, and noise alone would lower r.
    assert label.n is not None
    shared = set.intersection(*(set(replay.comparable(label.n)) for replay in chosen))

    def at(n: int) -> CorrelationAtN:
        accuracy = np.array([replay.mean(n) for replay in chosen])
        there = replace(measured, y=accuracy)
        pearson, spearman = (interval_to_read(there, level, c) for c in ("pearson", "spearman"))
        return CorrelationAtN(n=n, pearson=pearson, spearman=spearman)

    points = [at(n) for n in sorted(shared) if n >= 2]
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
