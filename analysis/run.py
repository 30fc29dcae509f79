"""The whole analysis, from a run's tables to its results, in reading order."""

from collections.abc import Iterable
from itertools import chain
from typing import TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from bon.analysis.correlation.axes import ScoredPairs, clusters_of, kept_questions, measure
from bon.analysis.correlation.coefficients import by_n, correlate
from bon.analysis.correlation.paired_accuracies import (
    Label,
    Measured,
    difference_errors,
    errors_of_means,
)
from bon.analysis.correlation.power import needed
from bon.analysis.data.arrays import Pool, Run, opinion, read
from bon.analysis.data.gold_pairs import warning as read_as_pairs
from bon.analysis.data.tables import Tables
from bon.analysis.estimators import pair_sets, resampling
from bon.analysis.estimators.baselines import ON_PAIRS, baseline_replays
from bon.analysis.estimators.breakdowns import breakdowns
from bon.analysis.estimators.choices import Policy, Study, best_of_n, policy_result, study
from bon.analysis.estimators.comparisons import compare, rank_bands
from bon.analysis.estimators.replay import (
    Replay,
    Setting,
    panel_opinion,
    replay_opinion,
)
from bon.analysis.estimators.resampling import Draws
from bon.analysis.finding import study_description
from bon.analysis.finding.verdict import find, reversed_scores
from bon.analysis.results import (
    Comparison,
    CorrelationByN,
    Options,
    Results,
    RuleSupport,
)
from bon.analysis.results.phrasing import percent
from bon.analysis.tasks import parts_of, task_report
from bon.analysis.verdict.of_axes import verdicts_of
from bon.choosing.opinion import Opinion
from bon.choosing.rules import RULES
from bon.core.errors import BonError
from bon.core.records import BASELINES, check_rewarder_name

T = TypeVar("T")
Ensembles = dict[str, tuple[str, ...]]


def analyse(data: Tables | Run, options: Options | None = None) -> Results:
    """Compute all results of a run's tables, or of the arrays already read from them.

    Pure: the same tables and options give the same results.
    """
    options = options or Options()
    unknown = [rule for rule in options.rules if rule not in RULES]
    if unknown:
        raise BonError(f"no selection rule {unknown[0]!r}", f"choose among {', '.join(RULES)}")
    run = data if isinstance(data, Run) else read(data)
    with threadpool_limits(1, "blas"):  # more threads cost processor time and save none
        return _analyse(run, options)


def _analyse(run: Run, options: Options) -> Results:
    tables, level = run.tables, options.level
    ensembles = _ensembles(run, options)
    draws = _draws(tables, options, "questions")

    policies = _policies(run, draws, ensembles, options)
    studies = [p.study for p in policies]
    labels = tables.meta.get("candidate_labels", {})
    best = [b for p in policies for b in best_of_n(p.study, set(p.rules.items()))]

    benchmarks = _benchmarks(run, ensembles, options)

    parts = {}
    for name, part in parts_of(run).items():
        drawn = _draws(part.tables, options, name)
        parts[name] = part, _policies(part, drawn, ensembles, options)
    by_task = _known([task_report(parts, benchmarks, tables.meta.get("tasks", {}), options)])

    measured = measure(run, policies, benchmarks, options)
    correlations = [correlate(m, label, options) for label, m in measured]
    verdicts = verdicts_of(measured, level)
    comparisons = _comparisons(policies, benchmarks, ensembles, options)

    by_name = {p.study.pool.policy: p for p in policies}
    curves: list[CorrelationByN | None] = []
    for label, m in measured:
        if label.primary:
            policy = by_name[label.policy]
            kept, replays = kept_questions(policy.study, label.leaks), policy.headline(m.names)
            curves.append(by_n(label, m, replays, kept, level))

    counted = {b.pairs.name: len(b.pairs.frame) for b in benchmarks}
    larger = _known(
        needed(v, len(tables.questions), counted[name]) for name, v in verdicts if v is not None
    )

    judging = study_description.judging(run, draws, level)
    protocol = study_description.protocol(run, studies, options)
    overlap = study_description.overlap(tables)
    baselines = [name for name in BASELINES if any(name in s.baselines for s in studies)]
    infos = study_description.rewarders(run, ensembles, baselines)
    return Results(
        run=study_description.run_info(tables),
        options=options,
        protocol=protocol,
        sources=tables.meta.get("sources", ()),
        citations=tuple(str(c) for c in tables.meta.get("citations", ())),
        counts=study_description.counts(run, judging, infos),
        finding=find(
            verdicts,
            correlations,
            best,
            larger,
            protocol,
            overlap=overlap,
            differing=[t.sentence for t in by_task if not t.agree],
        ),
        by_task=tuple(by_task),
        policies=tuple(policy_result(s, labels.get(s.pool.policy, [])) for s in studies),
        rewarders=infos,
        benchmarks=tuple(r for b in benchmarks for r in b.results),
        breakdowns=tuple(breakdowns(run, benchmarks, options)),
        best_of_n=tuple(best),
        comparisons=tuple(comparisons),
        ranks=tuple(rank_bands(comparisons)),
        correlations=tuple(correlations),
        correlation_by_n=tuple(_known(curves)),
        verdicts=tuple(_known(v for _, v in verdicts)),
        needed=tuple(larger),
        judging=judging,
        leaks=study_description.leaks(tables),
        completeness=tables.meta.get("completeness"),
        rules=tuple(reason for p in policies for reason in p.support),
        warnings=tuple(_warnings(run, studies, benchmarks)),
    )


def measured(data: Tables | Run, options: Options) -> list[tuple[Label, Measured]]:
    """Measure both axes of every correlation of a run, and nothing else."""
    run = data if isinstance(data, Run) else read(data)
    draws = _draws(run.tables, options, "questions")
    policies = _policies(run, draws, {}, options)
    return measure(run, policies, _benchmarks(run, {}, options), options)


def _draws(tables: Tables, options: Options, label: str) -> Draws:
    """Resample questions, whole clusters of them where clusters are stated."""
    codes = clusters_of(tables.questions)
    if int(codes.max(initial=-1)) + 1 == len(codes):
        return resampling.draw(len(codes), options.draws, options.seed, label)
    return resampling.draw_clusters(codes, 0 * codes, options.draws, options.seed, label)


def _known(values: Iterable[T | None]) -> list[T]:
    return [value for value in values if value is not None]


def _ensembles(run: Run, options: Options) -> Ensembles:
    """Return ensembles of the options and of the run, whose members must exist."""
    ensembles = {**run.tables.meta.get("ensembles", {}), **options.ensembles}
    for name, members in ensembles.items():
        check_rewarder_name(str(name))
        for member in members:
            if member not in run.rewarders:
                raise BonError(
                    f"ensemble {name!r} names {member!r}, which is not a rewarder of this run",
                    f"choose among {', '.join(run.rewarders[:8])}",
                )
    return {str(name): tuple(members) for name, members in ensembles.items()}


# ------------------------------------------------------------------ best of n


def _policies(run: Run, draws: Draws, ensembles: Ensembles, options: Options) -> list[Policy]:
    pools = run.pools.values()
    return [_policy(run, pool, draws.of(pool.rows), ensembles, options) for pool in pools]


def _policy(run: Run, pool: Pool, draws: Draws, ensembles: Ensembles, options: Options) -> Policy:
    """Replay every rewarder, ensemble and baseline on one pool."""
    n = pool.size if options.n is None else options.n
    if not 1 <= n <= pool.size:
        raise BonError(
            f"n = {n} was requested, but {pool.policy} has {pool.size} candidates per question",
            f"choose n between 1 and {pool.size}",
        )
    setting = Setting.of(pool, n, options, run)
    members = set(chain.from_iterable(ensembles.values()))
    opinions: dict[str, Opinion] = {}
    replays: list[Replay] = []
    support: list[RuleSupport] = []
    for name in run.rewarders:
        judgements = opinion(run, pool.located, name)
        if judgements is None:
            continue
        if run.design == "race":
            judgements = judgements.count_undecided_in(run.in_full[pool.rows])
        if name in members:
            opinions[name] = judgements
        replayed, reasons = replay_opinion(judgements, setting, name, options.rules, run.design)
        replays, support = replays + replayed, support + reasons
    for name, parts in ensembles.items():
        if not all(member in opinions for member in parts):
            continue
        own = [opinions[member] for member in parts]
        together = panel_opinion(own)
        replayed, reasons = replay_opinion(together, setting, name, options.rules, run.design)
        if any(o.kind != "scores" for o in own):  # shares won among all
            replayed = [r.at_ends(n) for r in replayed]
        replays, support = replays + replayed, support + reasons
    by_rank = sorted(replays, key=lambda replay: RULES[replay.rule].rank, reverse=True)
    rules = {replay.rewarder: replay.rule for replay in by_rank}
    everything = study(pool, n, replays + baseline_replays(setting), draws, options)
    return Policy(everything, rules, support)


# ------------------------------------------------------------------ reward benchmark, comparisons


def _benchmarks(run: Run, ensembles: Ensembles, options: Options) -> list[ScoredPairs]:
    benchmarks = []
    for pairs in pair_sets.pair_sets(run, options):
        verdicts = pair_sets.all_verdicts(run, pairs)
        for name, members in ensembles.items():
            if all(member in verdicts for member in members):
                verdicts[name] = pair_sets.ensemble_verdicts([verdicts[m] for m in members])
        baselines = ON_PAIRS if pairs.frame["length_0"].notna().any() else ("random",)
        for name in () if pairs.f1 else baselines:
            verdicts[name] = pair_sets.baseline_verdicts(pairs.frame, name)
        benchmarks.append(ScoredPairs.of(pairs, verdicts, options))
    return benchmarks


def _comparisons(
    policies: list[Policy], benchmarks: list[ScoredPairs], ensembles: Ensembles, options: Options
) -> list[Comparison]:
    """Compare every two rewarders by their choices and by their benchmark scores."""
    results = []
    for p in policies:
        s = p.study
        replays = [r for r in s.replays if p.rules.get(r.rewarder) == r.rule]
        if len(replays) > 1:
            names = [r.rewarder for r in replays]
            values = np.stack([r.at(s.n) for r in replays], axis=1)
            means, n = values.mean(axis=0), len(values)
            errors = errors_of_means(values)
            if s.draws.units is not None:
                errors = difference_errors(s.draws.means(values))
            results += compare(
                "best_of_n", s.pool.policy, None, names, means, errors, n, options.level
            )
    for b in benchmarks:
        names = [name for name in b.names if name not in ON_PAIRS and name not in ensembles]
        if len(names) > 1:
            axis, n = pair_sets.axes(b.pairs, b.worth_to(names))["macro"], len(b.pairs.frame)
            errors = difference_errors(axis.draws)
            results += compare(
                "benchmark", None, b.pairs.name, names, axis.values, errors, n, options.level
            )
    return results


# ------------------------------------------------------------------ warnings


def _warnings(run: Run, studies: list[Study], benchmarks: list[ScoredPairs]) -> list[str]:
    warnings = [str(w) for w in run.tables.meta.get("warnings", ())]
    if by_gold := run.tables.meta.get("read_as_pairs"):
        warnings.append(read_as_pairs(by_gold))
    judges = {name for name in run.rewarders if len(run.candidates[name])}
    for s in studies:
        pool, unparsed = s.pool, s.pool.unparsed.mean()
        if pool.short:
            warnings.append(
                f"{pool.policy}: {pool.short} questions with fewer than {pool.size} candidates "
                "are left out."
            )
        if unparsed > 0.05:
            warnings.append(
                f"{pool.policy}: {percent(unparsed, 0)} of candidates have no readable answer."
            )
        warnings += [
            f"{name} on {pool.policy}: no rule can be replayed from its judgements."
            for name in sorted(judges - {r.rewarder for r in s.replays})
        ]
    warnings += reversed_scores([r for b in benchmarks for r in b.results])
    for b, r in ((scored, r) for scored in benchmarks for r in scored.results):
        if r.num_pairs < len(b.pairs.frame):
            warnings.append(
                f"{r.rewarder} was asked about {r.num_pairs} of {len(b.pairs.frame)} pairs of "
                f"{b.pairs.name}; its accuracy is over those."
            )
    return warnings
