"""Gains by training over the untrained policy, and whether benchmark and Best-of-N foresaw them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from bon.analysis.estimators.resampling import (
    Draws,
    draw,
    estimate,
    holm,
    quantiles,
    two_sided,
)
from bon.analysis.outcomes import correlation_of
from bon.analysis.results import (
    PREDICTORS,
    REFERENCES,
    Estimate,
    Results,
    TrainedArm,
    Uplift,
    UpliftMethod,
)
from bon.analysis.results.phrasing import bounded, coefficient, gained, names, points
from bon.choosing.opinion import Floats

DRAWS = 2000
LEVEL, Z = 0.95, 1.959964


@dataclass(frozen=True)
class Outcomes:
    """One checkpoint: accuracy by question, greedy and sampled."""

    arm: str
    method: str
    seed: int
    greedy: "pd.Series[float]"
    sampled: "pd.Series[float]"


@dataclass(frozen=True)
class _Gains:
    """Mean gains over seeds by question (Q, A), and the spread between seeds beyond it (A)."""

    arms: list[str]
    greedy: Floats
    sampled: Floats
    seed_error: float


def analyse_uplift(
    outcomes: Sequence[Outcomes],
    results: Results,
    *,
    policy: str,
    num_questions: int,
    num_unjudged_by_key: int,
    seed: int,
) -> Uplift:
    """Compare every arm with the untrained policy, the first of `outcomes`, question by question.

    Intervals resample questions, the same draws for all arms, and add the variance between seeds,
    pooled over arms, where there are several. `hurts`: the interval of Best-of-N lies above zero
    and training is worse than that on random choices (the arm `random`), whose recipe costs as
    much: two-sided p after Holm's correction below 1 − level.
    """
    base, rest = outcomes[0], outcomes[1:]
    questions = base.greedy.index
    draws = draw(len(questions), DRAWS, seed, "uplift")
    predictors = predictors_of(results, policy)
    families = {info.rewarder: info.family for info in results.rewarders}
    arms: list[TrainedArm] = []
    methods: list[UpliftMethod] = []
    for method in dict.fromkeys(o.method for o in rest):
        own = [o for o in rest if o.method == method]
        gains = _gains(base, own)
        drawn = _drawn(gains, draws, seed)
        trained = _arms(gains, drawn, own, method, predictors)
        arms += trained
        place = [i for i, arm in enumerate(trained) if not arm.reference]
        centred = drawn[0][place] - drawn[0][place].mean(axis=0)  # what all arms share cancels
        noise = float(np.sqrt(centred.var(axis=1).mean())) if len(place) > 1 else 0.0
        methods.append(method_of(trained, families, noise))
    return Uplift(
        policy=policy,
        num_questions=num_questions,
        num_evaluated=len(questions),
        greedy=float(base.greedy.mean()),
        sampled=float(base.sampled.mean()),
        arms=tuple(arms),
        methods=tuple(methods),
        warnings=tuple(_warnings(rest, num_unjudged_by_key)),
    )


def predictors_of(results: Results, policy: str) -> dict[str, dict[str, Any]]:
    """Return benchmark accuracy and gain of Best-of-N by rewarder."""
    main = results.main
    predictors: dict[str, dict[str, Any]] = {}

    def put(rewarder: str, name: str, value: Any) -> None:
        if value is not None:
            predictors.setdefault(rewarder, {})[name] = value

    for row in results.benchmarks:
        if main is None or row.benchmark == main.benchmark:
            whole = row.overall if results.options.axis == "overall" else row.macro
            put(row.rewarder, "benchmark", whole.value)
    for choice in results.best_of_n:
        if choice.policy == policy and choice.headline:
            put(choice.rewarder, "best_of_n", choice.gain)
    return predictors


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
    # Between seeds of one arm: questions are the same, so all of it is training's own noise.
    errors = [rows.mean(axis=1).var(ddof=1) / len(rows) for rows in greedy if len(rows) > 1]
    return _Gains(
        arms,
        np.stack([rows.mean(axis=0) for rows in greedy], axis=1),
        np.stack([rows.mean(axis=0) for rows in table("sampled")], axis=1),
        float(np.sqrt(np.mean(errors))) if errors else 0.0,
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
    method: str,
    predictors: dict[str, dict[str, Any]],
) -> list[TrainedArm]:
    n = len(gains.greedy)
    greedy, sampled = (
        _estimates(values.mean(axis=0), spread, n)
        for values, spread in zip((gains.greedy, gains.sampled), drawn, strict=True)
    )
    zero = gains.arms.index("random") if "random" in gains.arms else None
    rows, p = [], []
    for i, arm in enumerate(gains.arms):
        over, p_over = None, None
        if zero is not None and i != zero:
            difference = gains.greedy[:, i] - gains.greedy[:, zero]
            spread = drawn[0][i] - drawn[0][zero]
            over = _estimates(difference.mean(keepdims=True), spread[None], n)[0]
            p_over = two_sided(spread)
        p.append(p_over)
        seeds = [o for o in own if o.arm == arm]
        rows.append(
            TrainedArm(
                arm=arm,
                method=method,
                reference=arm in REFERENCES,
                num_seeds=len(seeds),
                greedy=greedy[i],
                sampled=sampled[i],
                over_random=over,
                **predictors.get(arm, {}),
            )
        )
    return _flagged(rows, p)


def _estimates(values: Floats, spread: Floats, n: int) -> list[Estimate]:
    low, high = quantiles(spread, LEVEL, n)
    return [
        estimate(v, a, b, n, "questions and seeds")
        for v, a, b in zip(values, low, high, strict=True)
    ]


def method_of(trained: list[TrainedArm], families: dict[str, str], noise: float) -> UpliftMethod:
    """Describe one method: spread of gains, their reliability, and what predicted them.

    `noise`: standard error of a gain, but for what all arms share.
    """
    rows = [arm for arm in trained if not arm.reference]
    values = np.array([arm.greedy.value or 0.0 for arm in rows])
    spread = float(values.std(ddof=1)) if len(rows) > 1 else 0.0
    reliability = max(1 - (noise / spread) ** 2, 0.0) if spread > 0 else None
    method = trained[0].method
    correlations = tuple(
        c
        for x in PREDICTORS
        if (
            c := correlation_of(
                method,
                x,
                (
                    (arm.arm, families.get(arm.arm, ""), foreseen(arm, x), arm.greedy.value)
                    for arm in rows
                ),
            )
        ).num_rewarders
    )
    hurt = [arm.arm for arm in rows if arm.hurts]
    sentence = (
        f"{method.upper()}: gains differ by {points(spread).lstrip('+')} (SD) between rewarders"
        + ("" if reliability is None else f", reliability {coefficient(reliability)}")
        + "".join(
            f"; r with {PREDICTORS[c.x]} {bounded(c.r)}"
            for c in correlations
            if c.r.value is not None
        )
    )
    if hurt:
        sentence += f". Helps choosing, hurts training: {names(hurt)}"
    return UpliftMethod(
        method=method,
        spread=spread,
        reliability=reliability,
        correlations=correlations,
        sentence=sentence,
    )


def foreseen(arm: TrainedArm, x: str) -> float | None:
    """Return the value of a predictor."""
    value = getattr(arm, x)
    return value.value if isinstance(value, Estimate) else value


def _flagged(arms: list[TrainedArm], p: list[float | None]) -> list[TrainedArm]:
    """Mark arms whose rewarder helps choosing (its interval) and hurts training (Holm).

    p: of the difference from training on random choices; without that arm nothing is marked.
    """

    def hurts(arm: TrainedArm, adjusted: float | None) -> bool:
        over = arm.over_random
        lost = over is not None and (over.high or 0.0) < 0
        lost = lost and adjusted is not None and adjusted < 1 - LEVEL
        return lost and arm.best_of_n is not None and (arm.best_of_n.low or 0.0) > 0

    return [
        arm.model_copy(update={"hurts": hurts(arm, adjusted)})
        for arm, adjusted in zip(arms, holm(p), strict=True)
    ]


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
            "sampled gain": gained(arm.sampled) if arm.sampled else "",
            "over random": gained(arm.over_random) if arm.over_random else "",
            "gain by choosing": gained(arm.best_of_n) if arm.best_of_n else "",
            "note": "helps choosing, hurts training" if arm.hurts else "",
        }
        for arm in rows
    ]
