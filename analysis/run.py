"""From a run's tables to its results: the whole analysis, in reading order."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bon.analysis.correlation.allocation import components
from bon.analysis.correlation.by_n import by_n
from bon.analysis.correlation.coefficients import correct, correlate
from bon.analysis.correlation.measured import (
    Label,
    Measured,
    difference_errors,
    errors_of_means,
)
from bon.analysis.correlation.pooled import pool as pool_policies
from bon.analysis.correlation.power import needed, what_if
from bon.analysis.data.arrays import Pool, Run, opinion, read
from bon.analysis.data.tables import Tables
from bon.analysis.data.verdicts import Verdicts
from bon.analysis.decision.before_after import before_after
from bon.analysis.decision.how_much import how_much
from bon.analysis.decision.looked import InLooks, decided, looked
from bon.analysis.decision.margins import counted, margins
from bon.analysis.decision.ranks import rank_bands
from bon.analysis.decision.regret import decide
from bon.analysis.decision.surrogacy import surrogacy
from bon.analysis.decision.threshold import threshold
from bon.analysis.estimators import pair_sets, resampling
from bon.analysis.estimators.baselines import BASELINES, ON_PAIRS, baseline_replays
from bon.analysis.estimators.choices import Study, best_of_n, policy_result, study
from bon.analysis.estimators.comparisons import compare, separations
from bon.analysis.estimators.pair_results import benchmark_results
from bon.analysis.estimators.pair_sets import Axis, PairSet, Worth
from bon.analysis.estimators.parallel import each
from bon.analysis.estimators.readers import readers
from bon.analysis.estimators.readers import warnings as reader_warnings
from bon.analysis.estimators.replay import (
    Replay,
    Setting,
    ensemble_opinion,
    replay_opinion,
)
from bon.analysis.estimators.resampling import Draws
from bon.analysis.finding import describe
from bon.analysis.finding.decide import find, settled_instead
from bon.analysis.results import (
    Base,
    BenchmarkResult,
    Components,
    Correlation,
    Decision,
    HowMuch,
    Leaks,
    Margins,
    Options,
    Results,
    RuleSupport,
    Threshold,
)
from bon.choosing.opinion import Opinion
from bon.choosing.rules import RULES
from bon.choosing.subsets import EXACT_SIZE
from bon.core.errors import BonError
from bon.core.forked import shared

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

HALVES = 50  # random splits for the reliability of an axis
WORTH_A_COPY = 5_000  # judgements that take longer than a copy of the process


@dataclass(frozen=True)
class OnPairs:
    """One benchmark with what every rewarder said about it."""

    pairs: PairSet
    names: list[str]
    worth: Worth
    results: list[BenchmarkResult]
    said: dict[str, Verdicts]


def analyse(
    data: Tables | Run,
    options: Options | None = None,
    progress: Callable[[str], None] = lambda _stage: None,
) -> Results:
    """All results of a run's tables, or of the arrays read from them already.

    Pure: the same tables and options give the same results.
    """
    options = options or Options()
    unknown = [rule for rule in options.rules if rule not in RULES]
    if unknown:
        raise BonError(f"no selection rule {unknown[0]!r}", f"choose among {', '.join(RULES)}")
    run = data if isinstance(data, Run) else read(data)
    tables = run.tables
    ensembles = _ensembles(run, options)
    draws = resampling.draw(len(tables.questions), options.draws, options.seed, "questions")
    made_looks = looked(run, options)
    sets = pair_sets.pair_sets(run, options)
    grounds = [_ground(run, pool, draws, options) for pool in run.pools.values()]
    aside: list[Callable[[], Any]] = [
        *(partial(baseline_replays, one.setting) for one in grounds),
        *(partial(_scored, run, p, ensembles, options) for p in sets),
    ]
    worth_it = len(tables.judgements) > WORTH_A_COPY
    with shared(aside, when=worth_it) as done_aside:
        progress("best of n")
        asked = [_replays(run, one, ensembles, options, made_looks) for one in grounds]
        progress("reward benchmark")
        done = done_aside()
    baselines, scored = done[: len(grounds)], done[len(grounds) :]
    on_pairs = [OnPairs(p, *found) for p, found in zip(sets, scored, strict=True)]
    progress("correlation")
    studies = [_study(*one, options) for one in zip(grounds, asked, baselines, strict=True)]
    heads = [_headline_rules(s) for s in studies]
    told = [m for one in asked for m in one.margins]
    measured = [] if made_looks else _measure(run, studies, heads, on_pairs, options)
    compared = [] if made_looks else list(zip(studies, heads, strict=True))
    apart: list[Callable[[], Any]] = [
        *(partial(best_of_n, s, set(h.items())) for s, h in zip(studies, heads, strict=True)),
        partial(_how_much, measured, on_pairs, options),
        *(partial(correlate, m, label, options) for label, m in measured),
        partial(_comparisons, compared, on_pairs, ensembles, options),
        partial(describe.judging, run, draws, options.level),
        partial(_by_n, studies, heads, measured, options),
        partial(_decisions, measured, options),
        partial(_thresholds, studies, measured, options),
        partial(describe.rewarders, run, _first_rule(heads), ensembles, _baselines(studies)),
    ]
    with shared(apart, when=worth_it) as done_apart:
        labels = tables.meta.get("candidate_labels", {})
        read_by = [r for r in (readers(run, s) for s in studies) if r is not None]
        policies = [policy_result(s, labels.get(s.pool.policy, [])) for s in studies]
        done = done_apart()
    best, rest = list(chain.from_iterable(done[: len(studies)])), done[len(studies) :]
    parts, *coefficients, comparisons, judging, at_n, decisions, thresholds, rewarders = rest
    correlations = correct(coefficients)
    pooled = _pooled(correlations, options)
    primary = [(c, m) for c, (_, m) in zip(correlations, measured, strict=True) if c.primary]
    progress("what if")
    plans = []
    for c, _m in primary:
        pairs = next(p for p in on_pairs if p.pairs.name == c.benchmark)
        questions = next(p.num_questions for p in policies if p.policy == c.policy)
        plans.append(needed(c, questions, len(pairs.pairs.frame), options))
    predictions = []
    for c, m in primary:
        policy = next(p for p in policies if p.policy == c.policy)
        predictions.append(
            what_if(m, c, policy.pass_at_1.value, policy.majority.value, options.level)
        )
    progress("summary")
    protocol = describe.protocol(run, {s.pool.policy: s for s in studies}, options)
    plans_made = [plan for plan in plans if plan is not None]
    settled = decided(run, made_looks, options.level)
    finding = find(
        correlations, pooled, best, plans_made, protocol, overlap=describe.overlap(tables)
    )
    return Results(
        run=describe.run_info(tables),
        options=options,
        protocol=protocol,
        sources=describe.sources(tables),
        citations=tuple(str(c) for c in tables.meta.get("citations", ())),
        counts=describe.counts(run, judging),
        finding=settled_instead(settled) if settled else finding,
        policies=tuple(policies),
        readers=tuple(read_by),
        rewarders=rewarders,
        benchmarks=tuple(b for p in on_pairs for b in p.results),
        best_of_n=tuple(best),
        comparisons=tuple(comparisons),
        separation=tuple(separations(comparisons)),
        ranks=tuple(rank_bands(comparisons)),
        correlations=tuple(correlations),
        correlation_by_n=tuple(at_n),
        pooled=tuple(pooled),
        decisions=tuple(decisions),
        decided=settled,
        before_after=tuple(
            b for label, m in measured if label.primary for b in before_after(label, m, options)
        ),
        how_much=tuple(parts),
        thresholds=tuple(thresholds),
        margins=tuple(told),
        surrogacy=tuple(s for s in (surrogacy(c, told) for c, _ in primary) if s is not None),
        what_if=tuple(w for w in predictions if w is not None),
        needed=tuple(plans_made),
        components=tuple(_components(run, studies, heads, primary)),
        judging=judging,
        leaks=describe.leaks(tables),
        completeness=describe.completeness(tables),
        rules=tuple(reason for one in asked for reason in one.support),
        warnings=(
            *_warnings(run, studies, on_pairs),
            *(warning for r in read_by for warning in reader_warnings(r)),
        ),
    )


def measured(data: Tables | Run, options: Options) -> list[tuple[Label, Measured]]:
    """Both axes of every correlation of a run, draws included, and nothing else of the analysis."""
    run = data if isinstance(data, Run) else read(data)
    sets = pair_sets.pair_sets(run, options)
    on_pairs = [OnPairs(p, *_scored(run, p, {}, options)) for p in sets]
    draws = resampling.draw(len(run.tables.questions), options.draws, options.seed, "questions")
    grounds = [_ground(run, pool, draws, options) for pool in run.pools.values()]
    studies = [
        _study(one, _replays(run, one, {}, options, {}), baseline_replays(one.setting), options)
        for one in grounds
    ]
    return _measure(run, studies, [_headline_rules(s) for s in studies], on_pairs, options)


# ------------------------------------------------------------------ the two axes


def _ensembles(run: Run, options: Options) -> dict[str, tuple[str, ...]]:
    """Ensembles asked for by the options or named by the run; their members must exist."""
    named = {**run.tables.meta.get("ensembles", {}), **options.ensembles}
    for name, members in named.items():
        for member in members:
            if member not in run.rewarders:
                raise BonError(
                    f"ensemble {name!r} names {member!r}, which is not a rewarder of this run",
                    f"choose among {', '.join(run.rewarders[:8])}",
                )
    return {str(name): tuple(members) for name, members in named.items()}


def _scored(
    run: Run, pairs: PairSet, ensembles: dict[str, tuple[str, ...]], options: Options
) -> tuple[list[str], Worth, list[BenchmarkResult], dict[str, Verdicts]]:
    """What belongs to a benchmark's pairs in `OnPairs`."""
    said = pair_sets.all_verdicts(run, pairs)
    for name, members in ensembles.items():
        if all(m in said for m in members):
            said[name] = pair_sets.ensemble_verdicts([said[m] for m in members])
    told = bool(pairs.frame["length_0"].notna().any())
    for name in ON_PAIRS if told else ("random",):
        said[name] = pair_sets.baseline_verdicts(pairs.frame, name)
    codes = np.stack([v.code for v in said.values()], axis=1)
    worth = pair_sets.worth_of(codes, "headline", options)
    results = benchmark_results(pairs, said, options)
    return list(said), worth, results, said


@dataclass(frozen=True)
class Ground:
    """What every rewarder is replayed on: one pool, and draws of its questions."""

    setting: Setting
    draws: Draws


@dataclass(frozen=True)
class Replays:
    """What rewarders and ensembles chose from a pool, why they could not, and their margins."""

    replays: list[Replay]
    support: list[RuleSupport]
    margins: list[Margins]


def _ground(run: Run, pool: Pool, draws: Draws, options: Options) -> Ground:
    n = pool.size if options.n is None else options.n
    if not 1 <= n <= pool.size:
        raise BonError(
            f"n = {n} was asked for, but {pool.policy} has {pool.size} candidates per question",
            f"choose n between 1 and {pool.size}",
        )
    return Ground(Setting.of(pool, n, options, run), draws.of(pool.rows))


def _replays(
    run: Run,
    ground: Ground,
    ensembles: dict[str, tuple[str, ...]],
    options: Options,
    looks: dict[str, InLooks],
) -> Replays:
    setting, pool = ground.setting, ground.setting.pool
    counts, members = counted(ground.draws), set(chain.from_iterable(ensembles.values()))
    if pool.size > EXACT_SIZE:
        _ = setting.trial.vote_orders  # once, before the threads that share it

    def one(rewarder: str) -> tuple[Replays, Opinion | None]:
        said = opinion(run, pool.located, rewarder)
        if said is None:
            return Replays([], [], []), None
        if run.design == "race":
            said = said.rated_in(run.in_full[pool.rows])
        own = _sampled(setting, rewarder, looks.get(pool.policy))
        replays, support = replay_opinion(said, own, rewarder, options.rules, run.design)
        told = margins(pool, said, rewarder, counts, options.level) if replays else None
        found = Replays(replays, support, [] if told is None else [told])
        return found, said if rewarder in members else None  # it may be large

    made = each(one, run.rewarders)
    found = [asked for asked, _ in made]
    opinions = {
        r: said for r, (_, said) in zip(run.rewarders, made, strict=True) if said is not None
    }
    for name, who in ensembles.items():
        if all(m in opinions for m in who):
            together = ensemble_opinion([opinions[m] for m in who], pool)
            if together is not None:
                chosen = replay_opinion(together, setting, name, options.rules, run.design)
                found.append(Replays(*chosen, []))
    return Replays(
        [replay for one in found for replay in one.replays],
        [reason for one in found for reason in one.support],
        [margin for one in found for margin in one.margins],
    )


def _study(ground: Ground, asked: Replays, baselines: list[Replay], options: Options) -> Study:
    setting = ground.setting
    replays = asked.replays + baselines
    return study(setting.pool, setting.trial.n, replays, ground.draws, options)


def _sampled(setting: Setting, rewarder: str, looks: InLooks | None) -> Setting:
    """Where a rewarder was settled early: what it was judged on are the first at random."""
    sample = None if looks is None else looks.sample(rewarder)
    if sample is None:
        return setting
    return replace(setting, samples=(sample, *(sample & other for other in setting.samples)))


def _headline_rules(s: Study) -> dict[str, str]:
    """The rule that stands for each rewarder on this policy."""
    rules: dict[str, str] = {}
    for replay in s.replays:
        if replay.rule == "baseline":
            continue
        best = rules.get(replay.rewarder)
        if best is None or RULES[replay.rule].rank < RULES[best].rank:
            rules[replay.rewarder] = replay.rule
    return rules


def _first_rule(heads: list[dict[str, str]]) -> dict[str, str]:
    return {name: rule for found in reversed(heads) for name, rule in found.items()}


def _baselines(studies: list[Study]) -> list[str]:
    return [name for name in BASELINES if any(s.has(name) for s in studies)]


# ------------------------------------------------------------------ correlation


def _measure(
    run: Run,
    studies: list[Study],
    heads: list[dict[str, str]],
    on_pairs: list[OnPairs],
    options: Options,
) -> list[tuple[Label, Measured]]:
    """Both axes of every correlation, over the rewarders (no baseline, no ensemble) on both."""
    found = []
    halves = _halves(len(run.tables.questions), options.seed)
    for s, rules in zip(studies, heads, strict=True):
        for p in on_pairs:
            names = [n for n in run.rewarders if n in rules and n in p.names]
            if len(names) < 2:
                continue
            leaky = bool(s.pool.leaked.any() or p.pairs.leaked.any())
            left = not (s.pool.leaked.all() or p.pairs.leaked.all())
            choices: tuple[Leaks, ...] = ("in", "out") if leaky and left else ("in",)
            for leaks in choices:
                xs = _x_axes(p, names, leaks, options)
                y = _y_axis(s, rules, names, leaks, halves)
                for axis, x in xs.items():
                    primary = leaks == "in" and axis == _primary_axis(options, xs)
                    label = Label(s.pool.policy, p.pairs.name, axis, leaks, s.n, primary)
                    found.append((label, _both(run, p, names, rules, x, y, options)))
    return found


def _primary_axis(options: Options, xs: dict[str, Any]) -> str:
    if options.axis not in xs:
        raise BonError(
            f"no axis {options.axis!r} in this benchmark", f"choose among {', '.join(xs)}"
        )
    return options.axis


@dataclass(frozen=True)
class Side:
    """One axis of a correlation: values (R), draws (R, B), halves (2, R, S).

    It rests on `n` questions or pairs, which came as `units` in the draws. `errors` (R, R): of
    differences, where there is a closed form.
    """

    values: Floats
    draws: NDArray[np.float32]
    halves: Floats
    n: int
    units: int
    errors: Floats | None = None


def _x_axes(p: OnPairs, names: list[str], leaks: Leaks, options: Options) -> dict[str, Side]:
    rows = [p.names.index(name) for name in names]
    worth = Worth(p.worth.num[:, rows], p.worth.den[:, rows])
    keep = ~p.pairs.leaked if leaks == "out" else np.ones(len(p.pairs.frame), dtype=bool)
    if not keep.any():
        return {}
    whole = pair_sets.axes(p.pairs, worth, keep)
    clusters = int(p.pairs.cluster.max()) + 1
    split = _halves(clusters, options.seed + 1)[:, p.pairs.cluster]  # halves share no cluster
    parts = [
        pair_sets.axes(replace(p.pairs, draws=Draws(side.astype(np.float32))), worth, keep)
        for side in (split, ~split)
    ]

    def side(axis: str, found: Axis) -> Side:
        halves = np.stack([part[axis].draws.astype(float) for part in parts])
        inside = keep
        if axis.startswith("group:"):
            inside = keep & (p.pairs.group == p.pairs.groups.index(axis[6:]))
        return Side(found.values, found.draws, halves, int(inside.sum()), found.units)

    found = {axis: side(axis, a) for axis, a in whole.items()}
    small = [a for a, f in found.items() if a.startswith("group:") and f.n < pair_sets.MIN_GROUP]
    groups = [axis for axis in found if axis.startswith("group:")]
    whole_ones = [axis for axis in ("macro", "overall", "natural") if axis in found]
    ordered = [*whole_ones, *(groups if len(groups) > 1 else ())]
    return {axis: found[axis] for axis in ordered if axis not in small}


def _y_axis(s: Study, rules: dict[str, str], names: list[str], leaks: Leaks, halves: Bools) -> Side:
    place = {(r.rewarder, r.rule): k for k, r in enumerate(s.replays)}
    rows = [place[name, rules[name]] for name in names]
    keep = ~s.pool.leaked if leaks == "out" else np.ones(len(s.pool.rows), dtype=bool)
    values = np.stack([s.replays[k].at(s.n) for k in rows], axis=1)[keep]
    draws = s.heads_out if leaks == "out" and s.heads_out is not None else s.heads
    mine = halves[:, s.pool.rows[keep]]
    split = np.stack(
        [Draws(side.astype(np.float32)).means(values).astype(float) for side in (mine, ~mine)]
    )
    means, errors = values.mean(axis=0), errors_of_means(values)
    return Side(means, draws[rows], split, len(values), len(values), errors)


def _halves(size: int, seed: int) -> Bools:
    """(S, size): random halves."""
    rng = np.random.default_rng([seed, size, 13])
    return np.argsort(rng.random((HALVES, size)), axis=1) < size // 2


def _both(
    run: Run,
    p: OnPairs,
    names: list[str],
    rules: dict[str, str],
    x: Side,
    y: Side,
    options: Options,
) -> Measured:
    table = run.tables.rewarders.set_index("rewarder").loc[names]
    sizes = pd.to_numeric(table["size"], errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    bias = {b.rewarder: b.length_bias for b in p.results}
    lengths = [bias.get(name) for name in names]
    return Measured(
        tuple(names),
        x.values,
        y.values,
        tuple(resampling.from_draws(x.values, x.draws, x.n, "pairs", options.level, units=x.units)),
        tuple(resampling.from_draws(y.values, y.draws, y.n, "questions", options.level)),
        x.draws,
        y.draws,
        x.halves,
        y.halves,
        y_errors=y.errors,
        families=tuple(table["family"].fillna("").astype(str)),
        before=tuple(_before(run).get(name, "") for name in names),
        rules=tuple(rules[name] for name in names),
        sizes=sizes,
        length_bias=np.array(
            [np.nan if b is None or b.value is None else b.value for b in lengths]
        ),
    )


def _before(run: Run) -> dict[str, str]:
    """Rewarder -> what it was before it was trained, as the cards say."""
    return dict(run.tables.meta.get("before", {}))


def _by_n(
    studies: list[Study],
    heads: list[dict[str, str]],
    measured: list[tuple[Label, Measured]],
    options: Options,
) -> list[Any]:
    found = []
    for label, m in measured:
        if not label.primary:
            continue
        _, chosen = _chosen(studies, heads, label.policy, m)
        found.append(by_n(label, m, chosen, options.level))
    return [f for f in found if f is not None]


def _how_much(
    measured: list[tuple[Label, Measured]], on_pairs: list[OnPairs], options: Options
) -> list[HowMuch]:
    found = []
    for label, m in measured:
        if not label.primary:
            continue
        p = next(p for p in on_pairs if p.pairs.name == label.benchmark)
        rows = [p.names.index(name) for name in m.names]
        worth = Worth(p.worth.num[:, rows], p.worth.den[:, rows])
        key = (label.policy, label.benchmark, label.leaks)
        groups = {
            other.axis.removeprefix("group:"): one
            for other, one in measured
            if (other.policy, other.benchmark, other.leaks) == key
            and other.axis.startswith("group:")
        }
        found.append(how_much(label, m, groups, p.pairs, worth, options))
    return [f for f in found if f is not None]


def _components(
    run: Run,
    studies: list[Study],
    heads: list[dict[str, str]],
    primary: list[tuple[Correlation, Measured]],
) -> list[Components]:
    """Variance components of every primary correlation, for `bon plan`."""
    share = 1.0 if run.drawn is None else float(run.drawn.mean())
    found = []
    for c, m in primary:
        s, chosen = _chosen(studies, heads, c.policy, m)
        shared = set.intersection(*(set(replay.comparable(s.n)) for replay in chosen))
        ns = sorted(n for n in shared if 2 <= n <= s.n)
        at = {n: np.stack([replay.at(n) for replay in chosen], axis=1) for n in ns}
        estimated = any(replay.estimated.get(s.n) for replay in chosen)
        found.append(components(c, m, at, share if estimated else 1.0))
    return [f for f in found if f is not None]


def _chosen(
    studies: list[Study], heads: list[dict[str, str]], policy: str, m: Measured
) -> tuple[Study, list[Replay]]:
    """The study of a policy, and the replays that stand for the rewarders of a correlation."""
    k = next(i for i, s in enumerate(studies) if s.pool.policy == policy)
    by_key = {(r.rewarder, r.rule): r for r in studies[k].replays}
    return studies[k], [by_key[name, heads[k][name]] for name in m.names]


def _decisions(measured: list[tuple[Label, Measured]], options: Options) -> list[Decision]:
    found = [decide(label, m, options) for label, m in measured if label.primary]
    return [d for d in found if d is not None]


def _thresholds(
    studies: list[Study], measured: list[tuple[Label, Measured]], options: Options
) -> list[Threshold]:
    found = []
    bases: tuple[tuple[Base, str], ...] = (("pass@1", "random"), ("majority", "majority"))
    for label, m in measured:
        s = next(s for s in studies if s.pool.policy == label.policy)
        for over, name in bases if label.primary else ():
            k = s.index(name)
            value = s.replays[k].mean(s.n)
            found.append(threshold(label, m, over, value, s.heads[k], options))
    return [t for t in found if t is not None]


def _pooled(correlations: list[Correlation], options: Options) -> list[Any]:
    groups: dict[tuple[str, str, str], list[Correlation]] = {}
    for c in correlations:
        groups.setdefault((c.benchmark, c.axis, c.leaks), []).append(c)
    found = [pool_policies(group, options.level) for group in groups.values()]
    return [p for p in found if p is not None]


# ------------------------------------------------------------------ comparisons, warnings


def _comparisons(
    studies: list[tuple[Study, dict[str, str]]],
    on_pairs: list[OnPairs],
    ensembles: dict[str, tuple[str, ...]],
    options: Options,
) -> list[Any]:
    """Of every two rewarders, by what they choose and by their scores."""
    chosen = [c for s, rules in studies for c in _compare_choices(s, rules)]
    return chosen + [c for p in on_pairs for c in _compare_scores(p, ensembles, options)]


def _compare_choices(s: Study, rules: dict[str, str]) -> list[Any]:
    rows = [k for k, r in enumerate(s.replays) if rules.get(r.rewarder) == r.rule]
    if len(rows) < 2:
        return []
    values = np.stack([s.replays[k].at(s.n) for k in rows], axis=1)
    names = [s.replays[k].rewarder for k in rows]
    means, errors = values.mean(axis=0), errors_of_means(values)
    return compare(
        "best_of_n", s.pool.policy, None, names, means, errors, len(values), s.options.level
    )


def _compare_scores(
    p: OnPairs, ensembles: dict[str, tuple[str, ...]], options: Options
) -> list[Any]:
    rows = [i for i, name in enumerate(p.names) if name not in ON_PAIRS and name not in ensembles]
    if len(rows) < 2:
        return []
    axis = pair_sets.axes(p.pairs, Worth(p.worth.num[:, rows], p.worth.den[:, rows]))["macro"]
    names = [p.names[i] for i in rows]
    size = len(p.pairs.frame)
    errors = difference_errors(axis.draws)
    return compare("benchmark", None, p.pairs.name, names, axis.values, errors, size, options.level)


def _warnings(run: Run, studies: list[Study], on_pairs: list[OnPairs]) -> list[str]:
    said = [str(w) for w in run.tables.meta.get("warnings", ())]
    for name, earlier in _before(run).items():
        if earlier not in run.rewarders:
            said.append(
                f"{name} names {earlier} as itself before training, which is no rewarder of this "
                "run: what training changed is not said."
            )
    for s in studies:
        pool = s.pool
        if pool.short:
            said.append(
                f"{pool.policy}: {pool.short} questions with fewer than {pool.size} candidates "
                "are left out."
            )
        blank = pool.unparsed.mean()
        if blank > 0.05:
            said.append(
                f"{pool.policy}: {100 * blank:.0f} % of candidates have no readable answer."
            )
        chose = {r.rewarder for r in s.replays}
        asked = {n for n in run.rewarders if len(run.candidates[n])}
        for name in sorted(asked - chose):
            said.append(f"{name} on {pool.policy}: no rule can be replayed from what was judged.")
    for p in on_pairs:
        for b in p.results:
            if b.num_pairs < len(p.pairs.frame):
                said.append(
                    f"{b.rewarder} was asked about {b.num_pairs} of {len(p.pairs.frame)} pairs of "
                    f"{p.pairs.name}; its accuracy is over those."
                )
            if not b.overall_agrees:
                said.append(
                    f"{b.rewarder} on {p.pairs.name}: overall accuracy is not the one that its "
                    "groups imply."
                )
    return said
