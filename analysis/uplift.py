"""Gains by training over the untrained policy, and whether benchmark and Best-of-N foresaw them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import special

from bon.analysis.estimators.resampling import (
    Draws,
    draw,
    estimate,
    holm,
    jackknife,
    nothing,
    number,
    pearson_rows,
    quantiles,
    spearman_rows,
)
from bon.analysis.results import Estimate, Results
from bon.analysis.results.phrasing import bounded, coefficient, gained, names, points
from bon.analysis.results.uplift import TrainedArm, Uplift, UpliftCorrelation, UpliftMethod
from bon.choosing.opinion import Floats

DRAWS = 2000
ENOUGH = 8
"""Fewest rewarders whose r has an interval."""
LEVEL = 0.95


@dataclass(frozen=True)
class Outcomes:
    """One checkpoint: accuracy by question, greedy and sampled, and side effects."""

    arm: str
    method: str
    seed: int
    greedy: "pd.Series[float]"
    sampled: "pd.Series[float]"
    length: float
    unread: float


@dataclass(frozen=True)
class _Gains:
    """Mean gains over seeds by question (Q, A), and the spread between seeds beyond it (A)."""

    arms: list[str]
    greedy: Floats
    sampled: Floats
    seed_error: float
    num_seeds: int


def analyse_uplift(
    outcomes: Sequence[Outcomes],
    results: Results,
    *,
    policy: str,
    references: Sequence[str],
    num_questions: int,
    num_unjudged: int,
    num_unjudged_by_key: int,
    seed: int,
) -> Uplift:
    """Compare every arm with the untrained policy, the first of `outcomes`, question by question.

    Intervals resample questions, the same draws for all arms, and add the variance between seeds,
    pooled over arms, where there are several. `hurts`: the interval of Best-of-N lies above zero
    and training loses, two-sided p after Holm's correction below 1 − level.
    """
    base, rest = outcomes[0], outcomes[1:]
    questions = base.greedy.index
    draws = draw(len(questions), DRAWS, seed, "uplift")
    benchmark, best = _axes(results, policy)
    arms: list[TrainedArm] = []
    methods: list[UpliftMethod] = []
    for method in dict.fromkeys(o.method for o in rest):
        own = [o for o in rest if o.method == method]
        gains = _gains(base, own)
        drawn = _drawn(gains, draws, seed)
        trained = _arms(gains, drawn, own, base, method, references, benchmark, best)
        arms += trained
        methods.append(_method(trained, gains, drawn, method))
    return Uplift(
        policy=policy,
        num_questions=num_questions,
        num_unjudged=num_unjudged,
        num_unjudged_by_key=num_unjudged_by_key,
        num_evaluated=len(questions),
        greedy=float(base.greedy.mean()),
        sampled=float(base.sampled.mean()),
        arms=tuple(arms),
        methods=tuple(methods),
        warnings=tuple(_warnings(rest, num_unjudged_by_key)),
    )


def _axes(results: Results, policy: str) -> tuple[dict[str, float], dict[str, Estimate]]:
    """Return the benchmark accuracy and the gain of Best-of-N by rewarder."""
    rows = [b for b in results.best_of_n if b.policy == policy and b.headline]
    primary = next((c.benchmark for c in results.correlations if c.primary), None)
    scores = {
        b.rewarder: (b.overall if results.options.axis == "overall" else b.macro).value
        for b in results.benchmarks
        if primary in (None, b.benchmark)
    }
    known = {name: value for name, value in scores.items() if value is not None}
    return known, {row.rewarder: row.gain for row in rows}


def _gains(base: Outcomes, own: Sequence[Outcomes]) -> _Gains:
    arms = list(dict.fromkeys(o.arm for o in own))
    questions = base.greedy.index

    def table(kind: str) -> list[Floats]:
        start = getattr(base, kind)
        return [
            np.stack(
                [(getattr(o, kind)[questions] - start).to_numpy() for o in own if o.arm == arm]
            )
            for arm in arms
        ]

    greedy = table("greedy")
    seeds = min(map(len, greedy))
    # Between seeds of one arm: questions are the same, so all of it is training's own noise.
    errors = [rows.mean(axis=1).var(ddof=1) / len(rows) for rows in greedy if len(rows) > 1]
    return _Gains(
        arms,
        np.stack([rows.mean(axis=0) for rows in greedy], axis=1),
        np.stack([rows.mean(axis=0) for rows in table("sampled")], axis=1),
        float(np.sqrt(np.mean(errors))) if errors else 0.0,
        seeds,
    )


def _drawn(gains: _Gains, draws: Draws, seed: int) -> tuple[Floats, Floats]:
    """(A, B): mean gains in every draw, greedy and sampled, with the noise of training added."""
    noise = np.random.default_rng([seed, 1]).normal(
        scale=gains.seed_error, size=(len(gains.arms), DRAWS)
    )
    return draws.means(gains.greedy) + noise, draws.means(gains.sampled) + noise


def _arms(
    gains: _Gains,
    drawn: tuple[Floats, Floats],
    own: Sequence[Outcomes],
    base: Outcomes,
    method: str,
    references: Sequence[str],
    benchmark: dict[str, float],
    best: dict[str, Estimate],
) -> list[TrainedArm]:
    n = len(gains.greedy)
    greedy, sampled = (
        _estimates(values.mean(axis=0), spread, n)
        for values, spread in zip((gains.greedy, gains.sampled), drawn, strict=True)
    )
    zero = gains.arms.index("random") if "random" in gains.arms else None
    p = holm([_two_sided(row) for row in drawn[0]])
    rows = []
    for i, arm in enumerate(gains.arms):
        chosen = best.get(arm)
        lost = (greedy[i].high or 0) < 0 and (p[i] or 0) < 1 - LEVEL
        over = None
        if zero is not None and i != zero:
            difference = gains.greedy[:, i] - gains.greedy[:, zero]
            spread = drawn[0][i] - drawn[0][zero]
            over = _estimates(difference.mean(keepdims=True), spread[None], n)[0]
        seeds = [o for o in own if o.arm == arm]
        rows.append(
            TrainedArm(
                arm=arm,
                method=method,
                reference=arm in references,
                num_seeds=len(seeds),
                benchmark=benchmark.get(arm),
                best_of_n=chosen,
                greedy=greedy[i],
                sampled=sampled[i],
                over_random=over,
                length=float(np.mean([o.length for o in seeds])) - base.length,
                unread=float(np.mean([o.unread for o in seeds])) - base.unread,
                hurts=bool(lost and chosen is not None and (chosen.low or 0) > 0),
            )
        )
    return rows


def _estimates(values: Floats, spread: Floats, n: int) -> list[Estimate]:
    low, high = quantiles(spread, LEVEL, n)
    return [
        estimate(v, a, b, n, "questions and seeds")
        for v, a, b in zip(values, low, high, strict=True)
    ]


def _two_sided(spread: Floats) -> float:
    return float(min(1.0, 2 * min((spread <= 0).mean(), (spread >= 0).mean()) + 1 / len(spread)))


def _method(
    trained: list[TrainedArm], gains: _Gains, drawn: tuple[Floats, Floats], method: str
) -> UpliftMethod:
    rows = [arm for arm in trained if not arm.reference]
    place = [gains.arms.index(arm.arm) for arm in rows]
    values = np.array([arm.greedy.value or 0.0 for arm in rows])
    spread = float(values.std(ddof=1)) if len(rows) > 1 else 0.0
    centred = drawn[0][place] - drawn[0][place].mean(axis=0)  # noise shared by all arms cancels
    noise = float(np.sqrt(centred.var(axis=1).mean())) if len(rows) > 1 else 0.0
    reliability = max(1 - (noise / spread) ** 2, 0.0) if spread > 0 else None
    correlations = tuple(_correlation(rows, method, axis) for axis in ("benchmark", "best_of_n"))
    hurt = [arm.arm for arm in rows if arm.hurts]
    sentence = (
        f"{method.upper()}: gains differ by {points(spread).lstrip('+')} (SD) between rewarders"
        + ("" if reliability is None else f", reliability {coefficient(reliability)}")
        + "".join(
            f"; r with {'the benchmark' if c.x == 'benchmark' else 'the gain by choosing'} "
            f"{bounded(c.r)}"
            for c in correlations
            if c.r.value is not None
        )
    )
    if hurt:
        sentence += f". Helps choosing, hurts training: {names(hurt)}"
    return UpliftMethod(
        method=method,
        spread=spread,
        noise=noise,
        reliability=reliability,
        correlations=correlations,
        sentence=sentence,
    )


def _correlation(rows: list[TrainedArm], method: str, axis: str) -> UpliftCorrelation:
    points_of = [
        (foreseen, arm.greedy.value or 0.0)
        for arm in rows
        if (foreseen := _foreseen(arm, axis)) is not None
    ]
    x, y = np.array(points_of, dtype=float).reshape(-1, 2).T
    n = len(points_of)
    r, rho = ((number(float(f(x, y))) if n > 2 else None) for f in (pearson_rows, spearman_rows))
    low, high = _interval(x, y) if n >= ENOUGH else (None, None)
    return UpliftCorrelation(
        method=method,
        x="benchmark" if axis == "benchmark" else "best_of_n",
        num_rewarders=n,
        r=nothing(n) if r is None else estimate(r, low, high, n, "jackknife"),
        spearman=rho,
    )


def _interval(x: Floats, y: Floats) -> tuple[float, float]:
    """Return the jackknife interval of r on Fisher's scale, Student's t with n − 1 degrees."""
    z, error = jackknife(x, y, np.arange(len(x)))
    half = float(special.stdtrit(len(x) - 1, (1 + LEVEL) / 2)) * error
    return float(np.tanh(z - half)), float(np.tanh(z + half))


def _foreseen(arm: TrainedArm, axis: str) -> float | None:
    if axis == "benchmark":
        return arm.benchmark
    return None if arm.best_of_n is None else arm.best_of_n.value


def _warnings(outcomes: Sequence[Outcomes], by_key: int) -> list[str]:
    lines = []
    if len({o.seed for o in outcomes}) < 2:
        lines.append("one seed per arm: intervals hold the noise of questions, not of training")
    if by_key:
        lines.append(
            f"{by_key:,} questions with different answers were not judged because all candidates "
            "are wrong by the answer key, so the training data are filtered by it"
        )
    return lines


def uplift_rows(results: Uplift) -> list[dict[str, str]]:
    """Return the arms as rows of a table, the largest gain first within each method."""
    rows = sorted(results.arms, key=lambda a: (a.method, -(a.greedy.value or 0.0)))
    return [
        {
            "trained on": f"({arm.arm})" if arm.reference else arm.arm,
            "method": arm.method,
            "greedy gain": gained(arm.greedy),
            "sampled gain": gained(arm.sampled),
            "over random": gained(arm.over_random) if arm.over_random else "",
            "gain by choosing": gained(arm.best_of_n) if arm.best_of_n else "",
            "note": "helps choosing, hurts training" if arm.hurts else "",
        }
        for arm in rows
    ]
