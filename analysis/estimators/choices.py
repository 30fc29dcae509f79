"""Best-of-N results from replays: curves, gains, slices, with shared bootstrap draws."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bon.analysis.data.arrays import Pool
from bon.analysis.estimators import resampling
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
    VersusMajority,
)
from bon.choosing.opinion import Bools, Floats

Floats32 = NDArray[np.float32]

METHOD = "questions"


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

    def index(self, baseline: str) -> int:
        """Return the index of a baseline among the replays."""
        return self._baselines()[baseline]

    def has(self, baseline: str) -> bool:
        """Whether a baseline could be computed."""
        return baseline in self._baselines()

    def _baselines(self) -> dict[str, int]:
        return {r.rewarder: k for k, r in enumerate(self.replays) if r.rule == "baseline"}


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
    subject = _slices(s, "subject", headline)
    difficulty = _slices(s, "difficulty", headline)
    random, majority, oracle = (s.index(name) for name in ("random", "majority", "oracle"))
    values = np.array([r.mean(s.n) for r in s.replays])
    not_leaked = ~s.pool.leaked
    q, level = len(s.pool.correct), s.options.level
    sizes = [_sample_size(r, s.n) for r in s.replays]

    by_question = np.stack([r.at(s.n) for r in s.replays], axis=1)

    def differences(base: int, rows: Bools, heads: Floats32, n: int | list[int]) -> list[Estimate]:
        change = by_question[rows] - by_question[rows][:, [base]]
        differing = (np.abs(change) > 1e-9).sum(axis=0)
        differing[base] = len(change)  # from itself it differs by definition nowhere
        means, draws = change.mean(axis=0), heads - heads[base]
        return from_draws(means, draws, n, METHOD, level, proportion=False, differing=differing)

    gain, gain_draws = values - values[random], s.heads - s.heads[random]
    room = values[oracle] - values[random]
    with np.errstate(invalid="ignore", divide="ignore"):
        closed = np.where(room > 1e-12, gain / room, np.nan)
        room_draws = s.heads[oracle] - s.heads[random]
        closed_draws = gain_draws / np.where(room_draws > 1e-9, room_draws, np.nan)
    accuracy = _accuracies(values, s.heads, sizes, level)
    everything = np.ones(q, dtype=bool)
    gains = differences(random, everything, s.heads, sizes)
    gaps_closed = from_draws(closed, closed_draws, sizes, METHOD, level, proportion=False)
    to_vote = differences(majority, everything, s.heads, sizes)
    without: list[Estimate] | list[None] = [None] * len(values)
    gains_without: list[Estimate] | list[None] = [None] * len(values)
    if s.heads_out is not None:
        kept, count = not_leaked, int(not_leaked.sum())
        values_out = np.array([r.at(s.n)[kept].mean() for r in s.replays])
        without = _accuracies(values_out, s.heads_out, count, level)
        gains_without = differences(random, kept, s.heads_out, count)
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
                curve=_curve(s, replay),
                exact=replay.exact,
                resampling_error=replay.error,
                scale=replay.scale,
                estimated=replay.estimated.get(s.n),
                accuracy=accuracy[k],
                accuracy_without_leaks=without[k],
                gain=gains[k],
                gain_without_leaks=gains_without[k],
                gap_closed=gaps_closed[k],
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
            )
        )
    return results


def _curve(s: Study, replay: Replay) -> tuple[CurvePoint, ...]:
    """Accuracy at every n."""
    sizes = [_sample_size(replay, n) for n in replay.ns]
    draws = s.draws.means(replay.values)
    accuracies = _accuracies(replay.means, draws, sizes, s.options.level)
    return tuple(
        CurvePoint(n=n, accuracy=accuracy, estimated=replay.estimated.get(n))
        for n, accuracy in zip(replay.ns, accuracies, strict=True)
    )


def _accuracies(
    values: Floats, draws: Floats32, n: int | list[int], level: float
) -> list[Estimate]:
    """Estimate accuracies (C) from draws (C, B); sample estimates may lie outside 0 to 1."""
    return from_draws(np.clip(values, 0, 1), np.clip(draws, 0, 1), n, METHOD, level)


def _sample_size(replay: Replay, n: int) -> int:
    basis = replay.estimated.get(n)
    return basis.questions if basis is not None else len(replay.values)


def _slices(s: Study, column: str, headline: set[tuple[str, str]]) -> dict[int, tuple[Slice, ...]]:
    """Accuracy by subject or difficulty, of headline rules and baselines by index."""
    rows = [
        k
        for k, r in enumerate(s.replays)
        if r.rule == "baseline" or (r.rewarder, r.rule) in headline
    ]
    values = np.stack([s.replays[k].at(s.n) for k in rows], axis=1)
    slices: dict[int, list[Slice]] = {k: [] for k in rows}
    for name, inside in _levels(s.pool, column):
        draws, means = s.draws.of(inside).means(values[inside]), values[inside].mean(axis=0)
        accuracies = _accuracies(means, draws, int(inside.sum()), s.options.level)
        for k, accuracy in zip(rows, accuracies, strict=True):
            slices[k].append(Slice(name=name, accuracy=accuracy))
    return {k: tuple(part) for k, part in slices.items()}


def _levels(pool: Pool, column: str) -> list[tuple[str, Bools]]:
    """Return the values of a question column, sorted, without blanks, and their rows."""
    known = pool.frame[column].notna() & (pool.frame[column].astype(str) != "")
    names: list[object] = sorted(pool.frame.loc[known, column].unique().tolist())
    if set(names) <= {"Easy", "Medium", "Hard"}:
        names = [name for name in ("Easy", "Medium", "Hard") if name in names]
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


def _peak(s: Study, replay: Replay) -> tuple[int, Estimate]:
    """Return the n of highest accuracy up to the headline n, and the change since."""
    ns = [n for n in replay.comparable(s.n) if n <= s.n]
    means = np.array([replay.mean(n) for n in ns])
    peak = ns[int(np.argmax(means > means.max() - 1e-12))]
    q = len(replay.values)
    if peak == s.n:
        return peak, Estimate(value=0.0, low=0.0, high=0.0, n=q, method=METHOD)
    change = (replay.at(s.n) - replay.at(peak))[:, None]
    draws, level = s.draws.means(change), s.options.level
    return peak, from_draws(change.mean(axis=0), draws, q, METHOD, level, proportion=False)[0]


def _mean(s: Study, values: Floats) -> Estimate:
    return _means(s, values[:, None])[0]


def _means(s: Study, values: Floats) -> list[Estimate]:
    """Estimate the mean of each column of values (Q, C)."""
    draws = s.draws.means(values)
    return from_draws(values.mean(axis=0), draws, len(values), METHOD, s.options.level)


def policy_result(s: Study, labels: list[str]) -> PolicyResult:
    """Describe a policy before any rewarder chose; `labels` name candidate indexes (files)."""
    pool, level = s.pool, s.options.level
    q, m = pool.correct.shape

    def headline(name: str) -> Estimate:
        k = s.index(name)
        return from_draws(np.array([s.replays[k].mean(s.n)]), s.heads[[k]], q, METHOD, level)[0]

    def without_leaks(name: str) -> Estimate | None:
        if s.heads_out is None:
            return None
        k, kept = s.index(name), ~pool.leaked
        value = np.array([s.replays[k].at(s.n)[kept].mean()])
        return from_draws(value, s.heads_out[[k]], int(kept.sum()), METHOD, level)[0]

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
    num_correct = np.bincount(pool.correct.sum(axis=1).astype(int), minlength=m + 1)
    return PolicyResult(
        policy=pool.policy,
        num_questions=q,
        num_candidates=m,
        n=s.n,
        pass_at_1=headline("random"),
        first=headline("first"),
        majority=headline("majority"),
        longest=headline("longest") if s.has("longest") else resampling.nothing(q),
        logprob=headline("logprob") if s.has("logprob") else None,
        oracle=headline("oracle"),
        pass_at_1_without_leaks=without_leaks("random"),
        majority_without_leaks=without_leaks("majority"),
        oracle_without_leaks=without_leaks("oracle"),
        unparsed=_mean(s, pool.unparsed.mean(axis=1)),
        errors=_mean(s, pool.errors.mean(axis=1)),
        unanimous=wilson(float(same.sum()), q, level),
        correct_per_question=tuple(int(k) for k in num_correct),
        files=files,
        slices=_policy_slices(s),
        content=pool.content,
    )


def _policy_slices(s: Study) -> tuple[PolicySlice, ...]:
    columns: tuple[Column, ...] = ("subject", "difficulty", "num_options")
    names = ("random", "majority", "oracle")
    values = np.stack([s.replays[s.index(name)].at(s.n) for name in names], axis=1)
    slices = []
    for column in columns:
        for name, inside in _levels(s.pool, column):
            n, part = int(inside.sum()), values[inside]
            draws = s.draws.of(inside).means(part)
            pass_1, majority, oracle = from_draws(
                part.mean(axis=0), draws, n, METHOD, s.options.level
            )
            slices.append(
                PolicySlice(
                    by=column,
                    name=name,
                    num_questions=n,
                    pass_at_1=pass_1,
                    majority=majority,
                    oracle=oracle,
                )
            )
    return tuple(slices)
