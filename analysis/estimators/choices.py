"""From replays to Best-of-N results: curves, gains, slices, with draws shared by all of them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bon.analysis.data.arrays import Pool
from bon.analysis.estimators import resampling
from bon.analysis.estimators.parallel import each
from bon.analysis.estimators.replay import Replay
from bon.analysis.estimators.resampling import Draws, from_draws, wilson
from bon.analysis.results import (
    BestOfN,
    CandidateFile,
    Column,
    CurvePoint,
    Estimate,
    Options,
    PolicyResult,
    PolicySlice,
    Slice,
    UnparsedSensitivity,
    VersusMajority,
)
from bon.choosing import subsets

Floats = NDArray[np.float64]
Floats32 = NDArray[np.float32]
Bools = NDArray[np.bool_]

HOW = "questions"
COLUMNS = 500  # means taken at once
ALIKE = 1e-7  # draws are in single precision


@dataclass(frozen=True)
class Study:
    """One policy with all its replays; `heads` (K, B): draws of each replay at the headline n."""

    pool: Pool
    n: int
    replays: list[Replay]
    draws: Draws
    heads: Floats32
    heads_out: Floats32 | None
    options: Options

    def index(self, rewarder: str) -> int:
        """The place of a baseline among the replays."""
        return next(
            i
            for i, replay in enumerate(self.replays)
            if replay.rewarder == rewarder and replay.rule == "baseline"
        )

    def has(self, rewarder: str) -> bool:
        """Whether a baseline could be computed."""
        return any(r.rewarder == rewarder and r.rule == "baseline" for r in self.replays)


def study(pool: Pool, n: int, replays: list[Replay], draws: Draws, options: Options) -> Study:
    """Draws of all replays at the headline n, with and without leaked questions.

    `draws`: of the questions of the pool.
    """
    values = np.stack([r.at(n) for r in replays], axis=1)
    out = None
    if pool.leaked.any() and not pool.leaked.all():
        out = draws.of(~pool.leaked).means(values[~pool.leaked])
    return Study(pool, n, replays, draws, draws.means(values), out, options)


def best_of_n(s: Study, headline: set[tuple[str, str]]) -> list[BestOfN]:
    """One result a replay. `headline` holds the (rewarder, rule) that stand for rewarders."""
    curves = _curves(s)
    subject = _slices(s, "subject", headline)
    difficulty = _slices(s, "difficulty", headline)
    random, majority, oracle = (s.index(name) for name in ("random", "majority", "oracle"))
    values = np.array([r.mean(s.n) for r in s.replays])
    out = ~s.pool.leaked
    values_out = np.array([r.at(s.n)[out].mean() if out.any() else np.nan for r in s.replays])
    q, level = len(s.pool.correct), s.options.level
    room = values[oracle] - values[random]
    gain = s.heads - s.heads[random]
    with np.errstate(invalid="ignore", divide="ignore"):
        closed = np.where(room > 1e-12, (values - values[random]) / room, np.nan)
        spread = s.heads[oracle] - s.heads[random]
        closed_draws = gain / np.where(spread > 1e-9, spread, np.nan)
    rests = [_rests_on(r, s.n, q) for r in s.replays]
    accuracy = _accuracies(values, s.heads, rests, level)
    gains = from_draws(values - values[random], gain, rests, HOW, level, proportion=False)
    closeds = from_draws(closed, closed_draws, rests, HOW, level, proportion=False)
    over_vote = s.heads - s.heads[majority]
    to_vote = from_draws(values - values[majority], over_vote, rests, HOW, level, proportion=False)
    without, gains_without = _without_leaks(s, values_out, random, int(out.sum()))
    results = []
    for k, replay in enumerate(s.replays):
        peak, fall = _peak(s, replay)
        key = (replay.rewarder, replay.rule)
        results.append(
            BestOfN(
                policy=s.pool.policy,
                rewarder=replay.rewarder,
                rule=replay.rule,
                headline=key in headline or replay.rule == "baseline",
                n=s.n,
                num_questions=q,
                curve=curves[k],
                exact=replay.exact,
                resampling_error=replay.error,
                scale=replay.scale,
                estimated=replay.estimated.get(s.n),
                audit=replay.audit,
                accuracy=accuracy[k],
                accuracy_without_leaks=without[k] if without else None,
                gain=gains[k],
                gain_without_leaks=gains_without[k] if gains_without else None,
                gap_closed=closeds[k],
                versus_majority=to_vote[k],
                verdict_versus_majority=_verdict(to_vote[k], k == majority),
                by_subject=subject.get(k, ()),
                by_difficulty=difficulty.get(k, ()),
                peak_n=peak,
                fall_from_peak=fall,
                over_optimised=fall.high is not None and fall.high < 0,
                unparsed_chosen=_mean(s, replay.unparsed),
                undecided=wilson(replay.undecided * replay.asked, replay.asked, level, "judgements")
                if replay.asked
                else Estimate(value=0.0, low=0.0, high=0.0, n=0, method="none"),
                sensitivity=_sensitivity(s, replay, accuracy[k]),
            )
        )
    return results


def _curves(s: Study) -> list[tuple[CurvePoint, ...]]:
    """Accuracy at every n of every replay, some hundred columns at a time, on all cores."""
    parts: list[list[Replay]] = [[]]
    for replay in s.replays:
        if parts[-1] and sum(len(r.ns) for r in [*parts[-1], replay]) > COLUMNS:
            parts.append([])
        parts[-1].append(replay)

    def points(part: list[Replay]) -> list[tuple[CurvePoint, ...]]:
        found = zip(part, _curve_draws(s.draws, part), strict=True)
        return [_points(replay, draws, s.options.level) for replay, draws in found]

    return [curve for made in each(points, parts) for curve in made]


def _points(replay: Replay, draws: Floats32, level: float) -> tuple[CurvePoint, ...]:
    rests = [_rests_on(replay, n, len(replay.values)) for n in replay.ns]
    found = zip(replay.ns, _accuracies(replay.means, draws, rests, level), strict=True)
    return tuple(
        CurvePoint(n=n, accuracy=estimate, estimated=replay.estimated.get(n))
        for n, estimate in found
    )


def _curve_draws(draws: Draws, replays: list[Replay]) -> list[Floats32]:
    """(len(ns), B) of each: draws of its mean accuracy at every n.

    Curves that consist of fewer shapes than they have points are drawn by their shapes.
    """
    columns, mixes = [], []
    for replay in replays:
        values, mix = replay.values, None
        shapes = subsets.curve_shapes(len(replay.ns))
        if len(shapes) < len(replay.ns) / 2:
            parts = values @ shapes.T
            if np.abs(parts @ shapes - values).max() < ALIKE:
                values, mix = parts, shapes.T.astype(np.float32)
        columns.append(values)
        mixes.append(mix)
    ends = np.cumsum([c.shape[1] for c in columns])[:-1]
    means = np.split(draws.means(np.concatenate(columns, axis=1)), ends)
    return [own if mix is None else mix @ own for own, mix in zip(means, mixes, strict=True)]


def _accuracies(
    values: Floats, draws: Floats32, n: int | list[int], level: float
) -> list[Estimate]:
    """Of accuracies (C) and their draws (C, B); estimated ones may lie outside 0 to 1."""
    return from_draws(np.clip(values, 0, 1), np.clip(draws, 0, 1), n, HOW, level)


def _rests_on(replay: Replay, n: int, questions: int) -> int:
    basis = replay.estimated.get(n)
    return basis.questions if basis is not None else questions


def _slices(s: Study, column: str, headline: set[tuple[str, str]]) -> dict[int, tuple[Slice, ...]]:
    """Headline accuracy within each subject or difficulty, for headline rules and baselines."""
    rows = [
        k
        for k, r in enumerate(s.replays)
        if r.rule == "baseline" or (r.rewarder, r.rule) in headline
    ]
    values = np.stack([s.replays[k].at(s.n) for k in rows], axis=1)
    found: dict[int, list[Slice]] = {k: [] for k in rows}
    levels = _levels(s.pool, column)

    def estimates(inside: Bools) -> list[Estimate]:
        draws = s.draws.of(inside).means(values[inside])
        means, n = values[inside].mean(axis=0), int(inside.sum())
        return _accuracies(means, draws, n, s.options.level)

    for (name, _), made in zip(levels, each(estimates, [at for _, at in levels]), strict=True):
        for k, estimate in zip(rows, made, strict=True):
            found[k].append(Slice(name=name, accuracy=estimate))
    return {k: tuple(slices) for k, slices in found.items()}


def _levels(pool: Pool, column: str) -> list[tuple[str, Bools]]:
    """The values of a column of the questions, and where each holds; sorted, blanks left out."""
    known = pool.frame[column].notna() & (pool.frame[column].astype(str) != "")
    names: list[object] = sorted(pool.frame.loc[known, column].unique().tolist())
    if set(names) <= {"Easy", "Medium", "Hard"}:
        names = [name for name in ("Easy", "Medium", "Hard") if name in names]
    cells = pool.frame[column].to_numpy(dtype=object)
    return [(str(name), np.asarray(cells == name, dtype=bool)) for name in names]


def _without_leaks(
    s: Study, values: Floats, random: int, n: int
) -> tuple[list[Estimate], list[Estimate]]:
    if s.heads_out is None:
        return [], []
    level = s.options.level
    gain = s.heads_out - s.heads_out[random]
    return (
        _accuracies(values, s.heads_out, n, level),
        from_draws(values - values[random], gain, n, HOW, level, proportion=False),
    )


def _verdict(difference: Estimate, itself: bool) -> VersusMajority:
    if itself:
        return "is"
    if difference.low is not None and difference.low > 0:
        return "above"
    if difference.high is not None and difference.high < 0:
        return "below"
    return "unclear"


def _peak(s: Study, replay: Replay) -> tuple[int, Estimate]:
    """Where the curve is highest up to the headline n, and how far accuracy has fallen since."""
    upto = [n for n in replay.comparable(s.n) if n <= s.n]
    means = np.array([replay.mean(n) for n in upto])
    peak = upto[int(np.argmax(means > means.max() - 1e-12))]
    q = len(replay.values)
    if peak == s.n:
        return peak, Estimate(value=0.0, low=0.0, high=0.0, n=q, method=HOW)
    change = (replay.at(s.n) - replay.at(peak))[:, None]
    draws, level = s.draws.means(change), s.options.level
    return peak, from_draws(change.mean(axis=0), draws, q, HOW, level, proportion=False)[0]


def _mean(s: Study, values: Floats) -> Estimate:
    return _means(s, values[:, None])[0]


def _means(s: Study, values: Floats) -> list[Estimate]:
    """Of the columns of values (Q, C)."""
    draws = s.draws.means(values)
    return from_draws(values.mean(axis=0), draws, len(values), HOW, s.options.level)


def _sensitivity(s: Study, replay: Replay, accuracy: Estimate) -> UnparsedSensitivity:
    """The headline if choosing a candidate without an answer were wrong, dropped, or a guess."""
    right, blank = replay.at(s.n), replay.unparsed
    options = pd.to_numeric(s.pool.frame["num_options"], errors="coerce").to_numpy(dtype=float)
    guess = np.where(options > 0, 1 / np.maximum(options, 1), 0.0)
    kept = 1 - blank
    if not blank.any():
        return UnparsedSensitivity(wrong=accuracy, drop=accuracy, chance=accuracy)
    draws = s.draws.means(np.stack([right, kept], axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        value, ratio = np.array([right.sum() / kept.sum()]), draws[[0]] / draws[[1]]
    dropped = from_draws(value, ratio, len(right), HOW, s.options.level)[0]
    return UnparsedSensitivity(wrong=accuracy, drop=dropped, chance=_mean(s, right + blank * guess))


# ------------------------------------------------------------------ the policy itself


def policy_result(s: Study, labels: list[str]) -> PolicyResult:
    """The policy before any rewarder chose. `labels` name candidate indices (files)."""
    pool, level = s.pool, s.options.level
    q, m = pool.correct.shape

    def headline(name: str) -> Estimate | None:
        if not s.has(name):
            return None
        k = s.index(name)
        value = np.array([s.replays[k].mean(s.n)])
        return from_draws(value, s.heads[[k]], q, HOW, level)[0]

    def without(name: str) -> Estimate | None:
        if s.heads_out is None:
            return None
        k, keep = s.index(name), ~pool.leaked
        value = np.array([s.replays[k].at(s.n)[keep].mean()])
        return from_draws(value, s.heads_out[[k]], int(keep.sum()), HOW, level)[0]

    def sure(name: str) -> Estimate:
        found = headline(name)
        return found if found is not None else resampling.nothing(q)

    same = (pool.candidates.answers == pool.candidates.answers[:, :1]).all(axis=1)
    files = tuple(
        CandidateFile(
            index=i,
            label=labels[i] if i < len(labels) else str(i),
            accuracy=accuracy,
            unparsed=wilson(float(pool.unparsed[:, i].sum()), q, level),
        )
        for i, accuracy in enumerate(_means(s, pool.correct))
    )
    right = np.bincount(pool.correct.sum(axis=1).astype(int), minlength=m + 1)
    return PolicyResult(
        policy=pool.policy,
        num_questions=q,
        num_candidates=m,
        n=s.n,
        pass_at_1=sure("random"),
        first=sure("first"),
        majority=sure("majority"),
        longest=sure("longest"),
        logprob=headline("logprob"),
        oracle=sure("oracle"),
        pass_at_1_without_leaks=without("random"),
        majority_without_leaks=without("majority"),
        oracle_without_leaks=without("oracle"),
        unparsed=_mean(s, pool.unparsed.mean(axis=1)),
        errors=_mean(s, pool.errors.mean(axis=1)),
        unanimous=wilson(float(same.sum()), q, level),
        correct_per_question=tuple(int(k) for k in right),
        files=files,
        slices=_policy_slices(s),
    )


def _policy_slices(s: Study) -> tuple[PolicySlice, ...]:
    names = ("random", "majority", "oracle")
    values = np.stack([s.replays[s.index(name)].at(s.n) for name in names], axis=1)
    made = []
    columns: tuple[Column, ...] = ("subject", "difficulty", "num_options")
    for column in columns:
        for name, inside in _levels(s.pool, column):
            pass_1, majority, oracle = from_draws(
                values[inside].mean(axis=0),
                s.draws.of(inside).means(values[inside]),
                int(inside.sum()),
                HOW,
                s.options.level,
            )
            made.append(
                PolicySlice(
                    by=column,
                    name=name,
                    num_questions=int(inside.sum()),
                    pass_at_1=pass_1,
                    majority=majority,
                    oracle=oracle,
                )
            )
    return tuple(made)
