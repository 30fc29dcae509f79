"""Both axes of every correlation, measured from a run."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bon.analysis.correlation.paired_accuracies import (
    Label,
    Measured,
    difference_errors,
    errors_of_means,
)
from bon.analysis.data.arrays import Run
from bon.analysis.data.verdicts import Verdicts
from bon.analysis.estimators import pair_sets, resampling
from bon.analysis.estimators.choices import Policy, Study
from bon.analysis.estimators.pair_results import benchmark_results
from bon.analysis.estimators.pair_sets import PairSet, Worth
from bon.analysis.estimators.resampling import Draws
from bon.analysis.results import BenchmarkResult, Leaks, Options
from bon.choosing.opinion import Bools, Floats, Ints
from bon.core.errors import BonError

ENOUGH = 50  # pairs, and questions, without leaks from which on the primary axis leaves leaks out
HALVES = 50  # random splits of the questions, on which a pick is measured


@dataclass(frozen=True)
class ScoredPairs:
    """One benchmark with the verdicts, worth and results of every rewarder."""

    pairs: PairSet
    names: list[str]
    worth: Worth
    results: list[BenchmarkResult]

    @classmethod
    def of(cls, pairs: PairSet, verdicts: dict[str, Verdicts], options: Options) -> "ScoredPairs":
        """Score the verdicts of each rewarder."""
        codes = np.stack([v.code for v in verdicts.values()], axis=1)
        worth = pair_sets.worth_of(codes, options)
        return cls(pairs, list(verdicts), worth, benchmark_results(pairs, verdicts, options))

    def worth_to(self, names: Sequence[str]) -> Worth:
        """Select the worth (P, R) of some rewarders."""
        columns = [self.names.index(name) for name in names]
        return Worth(self.worth.num[:, columns], self.worth.den[:, columns])


@dataclass(frozen=True)
class _Axis:
    """Values (R) and draws (R, B) of one axis, resting on `n` items.

    `units` were resampled; `errors` (R, R): standard errors of differences.
    """

    values: Floats
    draws: NDArray[np.float32]
    n: int
    units: int
    halves: Floats | None = None
    errors: Floats | None = None


def measure(
    run: Run, policies: Sequence[Policy], benchmarks: list[ScoredPairs], options: Options
) -> list[tuple[Label, Measured]]:
    """Measure every axis over the rewarders on both sides (no baselines, no ensembles)."""
    results = []
    halves = _halves(run, options.seed)
    for policy in policies:
        s = policy.study
        for b in benchmarks:
            names = [n for n in run.rewarders if n in policy.rules and n in b.names]
            if len(names) < 2:
                continue
            leaky = s.pool.leaked.any() or b.pairs.leaked.any()
            remains = not (s.pool.leaked.all() or b.pairs.leaked.all())
            choices: tuple[Leaks, ...] = ("in", "out") if leaky and remains else ("in",)
            too_leaked = _too_leaked(s.pool.leaked, b.pairs.leaked)
            headline = "out" if leaky and not too_leaked else "in"
            for leaks in choices:
                xs = _x_axes(b, names, leaks, options)
                if options.axis not in xs:
                    raise BonError(
                        f"no axis {options.axis!r} in this benchmark",
                        f"choose among {', '.join(xs)}",
                    )
                y = _y_axis(policy, names, leaks, halves)
                for axis, x in xs.items():
                    primary = leaks == headline and axis == options.axis
                    why = too_leaked if primary else ""
                    label = Label(s.pool.policy, b.pairs.name, axis, leaks, s.n, primary, why)
                    rules = tuple(policy.rules[name] for name in names)
                    results.append((label, _measured(run, b, names, rules, x, y, options)))
    return results


def _too_leaked(questions: Bools, pairs: Bools) -> str:
    """Note that too little remains without leaks: below half, and below ENOUGH of either."""
    for leaked, what in ((pairs, "pairs"), (questions, "questions")):
        left = int((~leaked).sum())
        if left < min(ENOUGH, len(leaked) / 2):
            return (
                f"{left} of {len(leaked)} {what} are not leaked, too few for r without leaks "
                f"(at least {ENOUGH}, or half): add {what} that are not in both sets."
            )
    return ""


def _x_axes(b: ScoredPairs, names: list[str], leaks: Leaks, options: Options) -> dict[str, _Axis]:
    worth = b.worth_to(names)
    keep = ~b.pairs.leaked if leaks == "out" else np.ones(len(b.pairs.frame), dtype=bool)
    axes = {}
    for name, axis in pair_sets.axes(b.pairs, worth, keep).items():
        inside = keep
        if name.startswith("group:"):
            inside = keep & (b.pairs.group == b.pairs.groups.index(name[6:]))
        axes[name] = _Axis(axis.values, axis.draws, int(inside.sum()), axis.units)
    groups = [name for name in axes if name.startswith("group:")]
    large = [name for name in groups if axes[name].n >= pair_sets.MIN_GROUP]
    if np.allclose(axes["macro"].values, axes["overall"].values, rtol=0, atol=1e-12):
        del axes["macro" if options.axis == "overall" else "overall"]
    ordered = [name for name in ("macro", "overall", "natural") if name in axes]
    return {name: axes[name] for name in [*ordered, *(large if len(groups) > 1 else ())]}


def kept_questions(s: Study, leaks: Leaks) -> Bools:
    """Return which questions of the pool count (Q)."""
    return ~s.pool.leaked if leaks == "out" else np.ones(len(s.pool.rows), dtype=bool)


def _y_axis(policy: Policy, names: list[str], leaks: Leaks, halves: Bools) -> _Axis:
    s = policy.study
    replays = policy.headline(names)
    rows = [next(i for i, r in enumerate(s.replays) if r is replay) for replay in replays]
    keep = kept_questions(s, leaks)
    values = np.stack([replay.at(s.n) for replay in replays], axis=1)[keep]
    draws = s.heads_out if leaks == "out" and s.heads_out is not None else s.heads
    half = halves[:, s.pool.rows[keep]]
    split = np.stack(
        [Draws(side.astype(np.float32)).means(values).astype(float) for side in (half, ~half)]
    )
    n, units = len(values), s.draws.of(keep).units
    errors = errors_of_means(values) if units is None else difference_errors(draws[rows])
    return _Axis(values.mean(axis=0), draws[rows], n, units or n, split, errors)


def _halves(run: Run, seed: int) -> Bools:
    """Draw random halves of the questions (S, Q), which split no cluster."""
    cluster = clusters_of(run.tables.questions)
    count = int(cluster.max(initial=-1)) + 1
    rng = np.random.default_rng([seed, count, 13])
    return (np.argsort(rng.random((HALVES, count)), axis=1) < count // 2)[:, cluster]


def clusters_of(questions: pd.DataFrame) -> Ints:
    """Return the cluster of each question as a code, of its own where none is stated."""
    names = questions["question"].astype(str)
    if "cluster" in questions:
        names = questions["cluster"].where(questions["cluster"] != "", "\0" + names)
    return pd.factorize(names)[0].astype(np.int64)


def _measured(
    run: Run,
    b: ScoredPairs,
    names: list[str],
    rules: tuple[str, ...],
    x: _Axis,
    y: _Axis,
    options: Options,
) -> Measured:
    table = run.tables.rewarders.set_index("rewarder").loc[names]
    return Measured(
        tuple(names),
        x.values,
        y.values,
        tuple(resampling.from_draws(x.values, x.draws, x.n, "pairs", options.level, units=x.units)),
        tuple(
            resampling.from_draws(y.values, y.draws, y.n, "questions", options.level, units=y.units)
        ),
        x.draws,
        y.draws,
        y.halves,
        y_errors=y.errors,
        families=tuple(table["family"].fillna("").astype(str)),
        rules=rules,
        makers=tuple(table["maker"].fillna("").astype(str)) if "maker" in table else (),
        covariates=np.log10(pd.to_numeric(table["size"], errors="coerce").to_numpy(float))[:, None],
        covariate_names=("size",),
    )
