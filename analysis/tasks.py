"""Several tasks in one study: a leaderboard and a correlation for each, and over all of them.

Tasks share rewarders and benchmark, and have questions of their own. Over all tasks an accuracy is
the weighted mean of those of the tasks, and so are its draws, since tasks are resampled apart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bon.analysis.correlation.axes import ScoredPairs, measure
from bon.analysis.correlation.coefficients import correlate
from bon.analysis.correlation.paired_accuracies import Label, Measured, mean_of
from bon.analysis.data.arrays import Run, read
from bon.analysis.data.tables import Tables
from bon.analysis.estimators.choices import Policy
from bon.analysis.estimators.resampling import from_draws
from bon.analysis.results import (
    Correlation,
    Options,
    Task,
    TaskAccuracy,
    TaskCorrelation,
    TaskReport,
    Word,
)
from bon.analysis.results.phrasing import chance, names, percent
from bon.analysis.verdict.of_axes import axes_of
from bon.analysis.verdict.verdict import judge
from bon.choosing.opinion import Floats

ALL = "all tasks"
LEADS: dict[Word, str] = {
    "yes": "The benchmark predicts on",
    "probably": "It probably predicts on",
    "perhaps": "It perhaps predicts on",
    "weak": "It hardly predicts on",
    "no": "It does not predict on",
    "reverse": "It predicts the reverse on",
    "cannot tell": "The study cannot tell on",
}
BASELINES = ("random", "majority", "oracle")


def parts_of(run: Run) -> dict[str, Run]:
    """Return the run of each task by name; none for a single task."""
    tasks = list(dict.fromkeys(run.tables.questions["dataset"].astype(str)))
    return {name: read(_part(run.tables, name)) for name in tasks} if len(tasks) > 1 else {}


def _part(tables: Tables, task: str) -> Tables:
    questions = tables.questions[tables.questions["dataset"] == task].reset_index(drop=True)
    keys, judged = set(questions["question"]), tables.judgements
    own = judged["item"].isin(keys) | (judged["item_kind"] == "pair")
    return replace(
        tables,
        questions=questions,
        candidates=tables.candidates[tables.candidates["question"].isin(keys)],
        judgements=judged[own].reset_index(drop=True),
    )


def task_report(
    parts: Mapping[str, tuple[Run, Sequence[Policy]]],
    benchmarks: list[ScoredPairs],
    stated: dict[str, float | None],
    options: Options,
) -> TaskReport | None:
    """Compare the tasks of a study.

    parts: each task's run and replayed policies. stated: weights of the experiment; without them a
    task weighs as much as it has questions.
    """
    if not parts:
        return None
    sizes = {name: len(run.tables.questions) for name, (run, _) in parts.items()}
    raw = {name: stated.get(name) or sizes[name] for name in parts}
    weights = {name: weight / sum(raw.values()) for name, weight in raw.items()}
    measured: dict[tuple[str, str], dict[str, tuple[Label, Measured]]] = {}
    for name, (run, policies) in parts.items():
        for label, m in measure(run, policies, benchmarks, options):
            if label.primary:
                measured.setdefault((label.policy, label.benchmark), {})[name] = label, m
    rows = [row for of in measured.values() for row in _correlations(of, weights, options)]
    correlations = [_row(task, c, m) for task, c, m in rows]
    given = any(stated.get(name) for name in parts)
    return TaskReport(
        tasks=tuple(Task(name=n, num_questions=sizes[n], weight=w) for n, w in weights.items()),
        accuracies=tuple(_accuracies(parts, weights, options)),
        correlations=tuple(correlations),
        sentence=_sentence(correlations, weights, given),
        agree=len({row.verdict for row in correlations if row.task != ALL}) < 2,
    )


def _accuracies(
    parts: Mapping[str, tuple[Run, Sequence[Policy]]], weights: dict[str, float], options: Options
) -> list[TaskAccuracy]:
    """Return the accuracy of every rewarder and baseline on each task, and over all tasks."""
    values: dict[tuple[str, str], dict[str, tuple[float, Floats, int]]] = {}
    for task, (_, policies) in parts.items():
        for p in policies:
            s = p.study
            for k, replay in enumerate(s.replays):
                chosen = p.rules.get(replay.rewarder) == replay.rule
                if chosen or (replay.rule == "baseline" and replay.rewarder in BASELINES):
                    row = replay.mean(s.n), np.asarray(s.heads[k], dtype=float), len(s.pool.rows)
                    values.setdefault((s.pool.policy, replay.rewarder), {})[task] = row
    rows = []
    for (policy, rewarder), of_tasks in values.items():
        if of_tasks.keys() == weights.keys():
            mean = sum(weights[t] * value for t, (value, _, _) in of_tasks.items())
            draws = sum((weights[t] * d for t, (_, d, _) in of_tasks.items()), np.zeros(1))
            of_tasks[ALL] = mean, draws, sum(n for _, _, n in of_tasks.values())
        for task, (value, draws, n) in of_tasks.items():
            values_, heads = np.clip([value], 0, 1), np.clip(draws[None], 0, 1)
            (estimate,) = from_draws(values_, heads, n, "questions", options.level)
            rows.append(
                TaskAccuracy(task=task, policy=policy, rewarder=rewarder, accuracy=estimate)
            )
    return rows


def _correlations(
    of_tasks: dict[str, tuple[Label, Measured]], weights: dict[str, float], options: Options
) -> list[tuple[str, Correlation, Measured]]:
    rows = [(task, label, m) for task, (label, m) in of_tasks.items()]
    leaks = {label.leaks for _, label, _ in rows}
    if of_tasks.keys() == weights.keys() and len(leaks) == 1:
        part = [weights[task] for task in of_tasks]
        mean = mean_of([m for _, _, m in rows], part, options.level)
        rows += [(ALL, rows[0][1], mean)] if mean is not None else []
    return [(task, correlate(m, label, options), m) for task, label, m in rows]


def _row(task: str, c: Correlation, m: Measured) -> TaskCorrelation:
    verdict = None if c.too_leaked else judge(axes_of(m.complete()))
    return TaskCorrelation(
        task=task,
        policy=c.policy,
        benchmark=c.benchmark,
        axis=c.axis,
        leaks=c.leaks,
        num_rewarders=c.num_rewarders,
        pearson=c.pearson.estimate,
        spearman=c.spearman.estimate,
        verdict=verdict.word if verdict else "cannot tell",
        p_yes=verdict.p_yes if verdict else None,
    )


def _sentence(rows: list[TaskCorrelation], weights: dict[str, float], given: bool) -> str:
    shares = ", ".join(f"{name} {percent(weight, 0)}" for name, weight in weights.items())
    basis = "Weights as stated" if given else "Every question counts once"
    texts = [f"{basis}: {shares}."]
    by_verdict: dict[Word, list[str]] = {}
    several = len({(r.policy, r.benchmark) for r in rows}) > 1
    for row in rows:
        if row.task != ALL:
            where = f"{row.task} ({row.policy}, {row.benchmark})" if several else row.task
            text = where if row.p_yes is None else f"{where} (yes: {chance(row.p_yes)})"
            by_verdict.setdefault(row.verdict, []).append(text)
    for word, lead in LEADS.items():
        if word in by_verdict:
            texts.append(f"{lead} {names(by_verdict[word], most=9)}.")
    return " ".join(texts)
