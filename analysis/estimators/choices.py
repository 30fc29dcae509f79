"""Best-of-N results from replays: curves, gains, slices, with shared bootstrap draws."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

import numpy as np

from bon.analysis.data.arrays import Pool
from bon.analysis.estimators.replay import Replay
from bon.analysis.estimators.resampling import (
    Draws,
    Floats32,
    folds_of,
    from_draws,
    nothing,
    quantiles,
    wilson,
)
from bon.analysis.results import (
    BestOfN,
    CandidateFile,
    Column,
    CurvePoint,
    Estimate,
    Options,
    PolicyResult,
    QuestionSlice,
    RuleSupport,
    VersusMajority,
)
from bon.choosing.opinion import Bools, Floats

METHOD = "questions"
AT_ONCE = 4_000_000
"""Means in memory at once: columns times draws."""
FOLDS = 50
"""Folds of questions, on which a rewarder that was picked on the others is measured."""


@dataclass(frozen=True)
class Study:
    """One policy with its K replays; `heads` (K, B): draws of their accuracy at the headline n."""

    pool: Pool
    n: int
    replays: list[Replay]
    draws: Draws
    heads: Floats32
    heads_out: Floats32 | None
    options: Options

    @cached_property
    def baselines(self) -> dict[str, int]:
        """The index of each baseline that could be computed among the replays."""
        return {r.rewarder: k for k, r in enumerate(self.replays) if r.rule == "baseline"}


@dataclass(frozen=True)
class Policy:
    """A policy with all its replays; `rules`: the headline rule of each rewarder."""

    study: Study
    rules: dict[str, str]
    support: list[RuleSupport]

    def headline(self, names: Sequence[str]) -> list[Replay]:
        """Return the replays of rewarders under their headline rules."""
        replays = {(r.rewarder, r.rule): r for r in self.study.replays}
        return [replays[name, self.rules[name]] for name in names]


def study(pool: Pool, n: int, replays: list[Replay], draws: Draws, options: Options) -> Study:
    """Draw the accuracy of all replays at the headline n, with and without leaked questions.

    `draws`: of the questions of the pool.
    """
    values = np.stack([r.at(n) for r in replays], axis=1)
    out = None
    if pool.leaked.any() and not pool.leaked.all():
        out = draws.of(~pool.leaked).means(values[~pool.leaked])
    return Study(pool, n, replays, draws, draws.means(values), out, options)


def best_of_n(s: Study, headline: set[tuple[str, str]]) -> list[BestOfN]:
    """Return one result per replay; `headline`: (rewarder, rule) pairs that represent rewarders."""
    slices = _slices(s, headline)
    random, majority = s.baselines["random"], s.baselines["majority"]
    q, level = len(s.pool.correct), s.options.level
    sizes = [_sample_size(r, s.n) for r in s.replays]
    by_question = np.stack([r.at(s.n) for r in s.replays], axis=1)
    values = by_question.mean(axis=0)

    def differences(base: int, part: Floats, heads: Floats32, n: int | list[int]) -> list[Estimate]:
        change = part - part[:, [base]]
        differing = (np.abs(change) > 1e-9).sum(axis=0)
        differing[base] = len(change)  # from itself it differs by definition nowhere
        means, draws = change.mean(axis=0), heads - heads[base]
        return from_draws(
            means, draws, n, METHOD, level, proportion=False, units=s.draws.units,
            differing=None if s.draws.units else differing,
        )  # fmt: skip

    accuracy = _accuracies(values, s.heads, sizes, level, s.draws.units)
    gains = differences(random, by_question, s.heads, sizes)
    to_vote = differences(majority, by_question, s.heads, sizes)
    by_fold = _folds(s.pool).T @ by_question
    results = []
    for k, (replay, (curve, falls)) in enumerate(zip(s.replays, _curves(s), strict=True)):
        key = (replay.rewarder, replay.rule)
        results.append(
            BestOfN(
                policy=s.pool.policy,
                rewarder=replay.rewarder,
                rule=replay.rule,
                headline=key in headline or replay.rule == "baseline",
                n=s.n,
                num_questions=q,
                right_by_fold=tuple(by_fold[:, k].round(6).tolist())
                if key in headline or replay.rule == "baseline"
                else (),
                curve=curve,
                exact=replay.exact,
                scale=replay.scale,
                unit=replay.unit,
                estimated=replay.estimated.get(s.n),
                accuracy=accuracy[k],
                gain=gains[k],
                versus_majority=to_vote[k],
                verdict_versus_majority=_verdict(to_vote[k], k == majority),
                slices=tuple(slices.get(k, ())),
                over_optimised=falls,
                undecided=wilson(
                    replay.undecided * replay.num_judged, replay.num_judged, level, "judgements"
                )
                if replay.num_judged
                else Estimate(value=0.0, low=0.0, high=0.0, n=0, method="none"),
            )
        )
    return results


def _folds(pool: Pool) -> Floats:
    """(Q, FOLDS): 1 for the fold of each question; those of one cluster share theirs."""
    names = pool.frame["question"]
    if "cluster" in pool.frame:
        names = pool.frame["cluster"].where(pool.frame["cluster"] != "", names)
    return np.eye(FOLDS)[folds_of(names, FOLDS)]


def _curves(s: Study) -> Iterator[tuple[tuple[CurvePoint, ...], bool]]:
    """Yield for each replay its accuracy at every n, and whether it falls."""
    width = max(len(replay.ns) for replay in s.replays) * s.draws.counts.shape[1]
    step = max(1, AT_ONCE // width)
    for start in range(0, len(s.replays), step):
        part = s.replays[start : start + step]
        points = [(replay, n) for replay in part for n in replay.ns]
        sizes = [_sample_size(replay, n) for replay, n in points]
        means = np.concatenate([replay.means for replay in part])
        draws = s.draws.means(np.concatenate([replay.values for replay in part], axis=1))
        accuracies = _accuracies(means, draws, sizes, s.options.level, s.draws.units)
        curve = [
            CurvePoint(n=n, accuracy=accuracy, estimated=replay.estimated.get(n))
            for (replay, n), accuracy in zip(points, accuracies, strict=True)
        ]
        end = 0
        for replay in part:
            own, end = slice(end, end + len(replay.ns)), end + len(replay.ns)
            yield tuple(curve[own]), _falls(s, replay, draws[own])


def _accuracies(
    values: Floats, draws: Floats32, n: int | list[int], level: float, units: int | None
) -> list[Estimate]:
    """Estimate accuracies (C) from draws (C, B); sample estimates may lie outside 0 to 1."""
    values, draws = np.clip(values, 0, 1), np.clip(draws, 0, 1)
    return from_draws(values, draws, n, METHOD, level, units=units)


def _sample_size(replay: Replay, n: int) -> int:
    return replay.estimated.get(n, len(replay.values))


def _slices(s: Study, headline: set[tuple[str, str]]) -> dict[int, list[QuestionSlice]]:
    """Accuracy by columns of the questions, of headline rules and baselines by index."""
    rows = [
        k
        for k, r in enumerate(s.replays)
        if r.rule == "baseline" or (r.rewarder, r.rule) in headline
    ]
    values = np.stack([s.replays[k].at(s.n) for k in rows], axis=1)
    slices: dict[int, list[QuestionSlice]] = {k: [] for k in rows}
    columns: tuple[Column, ...] = get_args(Column)
    for by, (name, inside) in ((c, level) for c in columns for level in _levels(s.pool, c)):
        drawn, means = s.draws.of(inside), values[inside].mean(axis=0)
        draws, n = drawn.means(values[inside]), int(inside.sum())
        accuracies = _accuracies(means, draws, n, s.options.level, drawn.units)
        for k, accuracy in zip(rows, accuracies, strict=True):
            slices[k].append(QuestionSlice(by=by, name=name, accuracy=accuracy))
    return slices


def _levels(pool: Pool, column: str) -> list[tuple[str, Bools]]:
    """Return the values of a question column, sorted, without blanks, and their rows."""
    known = pool.frame[column].notna() & (pool.frame[column].astype(str) != "")
    grades = ("Easy", "Medium", "Hard")
    names: list[object] = sorted(pool.frame.loc[known, column].unique().tolist())
    if set(names) <= set(grades):
        names.sort(key=grades.index)
    cells = pool.frame[column].to_numpy(dtype=object)
    return [(str(name), np.asarray(cells == name, dtype=bool)) for name in names]


def _verdict(difference: Estimate, is_majority: bool) -> VersusMajority:
    if is_majority:
        return "is"
    if difference.low is not None and difference.low > 0:
        return "above"
    if difference.high is not None and difference.high < 0:
        return "below"
    return "unclear"


def _falls(s: Study, replay: Replay, draws: Floats32) -> bool:
    """Whether accuracy at the headline n is below that at the best smaller n, with its interval.

    `draws` (len(ns), B): of the accuracy at every n.
    """
    ns = [n for n in replay.comparable(s.n) if n <= s.n]
    means = np.array([replay.mean(n) for n in ns])
    peak = ns[int(np.argmax(means > means.max() - 1e-12))]
    if peak == s.n:
        return False
    last, best = replay.ns.index(s.n), replay.ns.index(peak)
    units = s.draws.units or len(replay.values)
    _, (high,) = quantiles(draws[last] - draws[best], s.options.level, units)
    return bool(high < 0)


def _means(s: Study, values: Floats) -> list[Estimate]:
    """Estimate the mean of each column of values (Q, C)."""
    draws, level = s.draws.means(values), s.options.level
    return from_draws(values.mean(axis=0), draws, len(values), METHOD, level, units=s.draws.units)


def policy_result(s: Study, labels: list[str]) -> PolicyResult:
    """Describe a policy before any rewarder chose; `labels` name candidate indexes (files)."""
    pool, level = s.pool, s.options.level
    q, m = pool.correct.shape

    def headline(name: str, heads: Floats32 | None, rows: Bools | slice) -> Estimate | None:
        if heads is None:
            return None
        k = s.baselines[name]
        values = s.replays[k].at(s.n)[rows]
        mean, units = values.mean(keepdims=True), s.draws.units
        return from_draws(mean, heads[[k]], len(values), METHOD, level, units=units)[0]

    names = ("random", "majority", "oracle")
    every = {name: headline(name, s.heads, slice(None)) for name in names}
    without = {name: headline(name, s.heads_out, ~pool.leaked) for name in names}

    same = (pool.candidates.answers == pool.candidates.answers[:, :1]).all(axis=1)
    files = tuple(
        CandidateFile(
            index=i,
            label=labels[i],
            accuracy=accuracy,
            unparsed=wilson(float(pool.unparsed[:, i].sum()), q, level),
        )
        for i, accuracy in enumerate(_means(s, pool.correct[:, : len(labels)]))
    )
    lost = np.stack([pool.unparsed.mean(axis=1), pool.errors.mean(axis=1)], axis=1)
    unparsed, errors = _means(s, lost)
    num_correct = np.bincount(pool.right.sum(axis=1), minlength=m + 1)
    return PolicyResult(
        policy=pool.policy,
        num_questions=q,
        questions_by_fold=tuple(_folds(pool).sum(axis=0).astype(int).tolist()),
        num_candidates=m,
        n=s.n,
        pass_at_1=every["random"] or nothing(q),
        majority=every["majority"] or nothing(q),
        oracle=every["oracle"] or nothing(q),
        pass_at_1_without_leaks=without["random"],
        majority_without_leaks=without["majority"],
        oracle_without_leaks=without["oracle"],
        unparsed=unparsed,
        errors=errors,
        unanimous=wilson(float(same.sum()), q, level),
        correct_per_question=tuple(int(k) for k in num_correct),
        files=files,
        content=pool.content,
    )
