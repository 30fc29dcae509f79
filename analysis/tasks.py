"""Several tasks in one study: a leaderboard and a correlation for each, and over all of them.

Tasks share rewarders and benchmark, and have questions of their own. Over all tasks an accuracy is
the weighted mean of those of the tasks, and so are its draws, since tasks are resampled apart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bon.analysis.correlation.axes import ScoredPairs, measure
from bon.analysis.correlation.coefficients import correlate
from bon.analysis.correlation.paired_accuracies import Label, Measured
from bon.analysis.correlation.pooled import pool
from bon.analysis.data.arrays import Run, read
from bon.analysis.data.tables import Tables
from bon.analysis.estimators.choices import Policy
from bon.analysis.estimators.resampling import from_draws
from bon.analysis.finding.verdict import WORDS, verdict
from bon.analysis.results import (
    Correlation,
    Options,
    Task,
    TaskAccuracy,
    TaskCorrelation,
    TaskReport,
)
from bon.analysis.results.phrasing import bounded, names, percent
from bon.choosing.opinion import Floats

ALL = "all tasks"
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
    correlations = [_row(task, c) for task, c in rows]
    several = len({c.policy for _, c in rows}) > 1
    apart: dict[tuple[str, str], list[Correlation]] = {}
    for task, c in rows:
        if task != ALL:
            name = f"{task} ({c.policy})" if several else task
            apart.setdefault((c.benchmark, c.leaks), []).append(
                c.model_copy(update={"policy": name})
            )
    pooled = (pool(rows, options.level, "task") for rows in apart.values())
    given = any(stated.get(name) for name in parts)
    return TaskReport(
        tasks=tuple(Task(name=n, num_questions=sizes[n], weight=w) for n, w in weights.items()),
        accuracies=tuple(_accuracies(parts, weights, options)),
        correlations=tuple(correlations),
        pooled=tuple(p for p in pooled if p is not None),
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
) -> list[tuple[str, Correlation]]:
    rows = [(task, correlate(m, label, options)) for task, (label, m) in of_tasks.items()]
    if of_tasks.keys() == weights.keys() and (mean := _together(of_tasks, weights, options)):
        rows.append((ALL, correlate(mean, next(iter(of_tasks.values()))[0], options)))
    return rows


def _row(task: str, c: Correlation) -> TaskCorrelation:
    return TaskCorrelation(
        task=task,
        policy=c.policy,
        benchmark=c.benchmark,
        axis=c.axis,
        leaks=c.leaks,
        num_rewarders=c.num_rewarders,
        pearson=c.pearson.estimate,
        spearman=c.spearman.estimate,
        verdict=verdict(c),
    )


def _together(
    of_tasks: dict[str, tuple[Label, Measured]], weights: dict[str, float], options: Options
) -> Measured | None:
    """Return the weighted mean over tasks of y for the rewarders of all tasks; x is the same."""
    every = [m for _, m in of_tasks.values()]
    shared = [name for name in every[0].names if all(name in m.names for m in every)]
    if len(shared) < 2 or len({label.leaks for label, _ in of_tasks.values()}) > 1:
        return None
    rows = [m.keep(np.array([m.names.index(name) for name in shared])) for m in every]
    part = [weights[task] for task in of_tasks]

    def mean(field: str) -> Floats:
        values = (np.asarray(getattr(m, field), dtype=float) for m in rows)
        return np.asarray(sum(w * v for w, v in zip(part, values, strict=True)))

    y, draws, n = mean("y"), mean("y_draws"), sum(m.y_estimates[0].n for m in rows)
    return replace(
        rows[0],
        y=y,
        y_draws=draws.astype(np.float32),
        y_halves=mean("y_halves"),
        y_estimates=tuple(from_draws(y, draws, n, "questions", options.level)),
    )


def _sentence(rows: list[TaskCorrelation], weights: dict[str, float], given: bool) -> str:
    shares = ", ".join(f"{name} {percent(weight, 0)}" for name, weight in weights.items())
    basis = "Weights as stated" if given else "Every question counts once"
    texts = [f"{basis}: {shares}."]
    by_verdict: dict[str, list[str]] = {}
    several = len({(r.policy, r.benchmark) for r in rows}) > 1
    for row in rows:
        if row.task != ALL:
            where = f"{row.task} ({row.policy}, {row.benchmark})" if several else row.task
            text = (
                f"{where}: r = {bounded(row.pearson)}" if row.pearson.value is not None else where
            )
            by_verdict.setdefault(WORDS[row.verdict], []).append(text)
    for word, lead in (
        ("yes", "The benchmark predicts on"),
        ("perhaps", "It perhaps predicts on"),
        ("no", "It does not predict on"),
        ("cannot tell", "The study cannot tell on"),
    ):
        if word in by_verdict:
            texts.append(f"{lead} {names(by_verdict[word], most=9)}.")
    return " ".join(texts)
