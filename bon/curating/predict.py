"""`bon curate predict`: how well the benchmark predicts Best-of-N on other questions.

Measured on held-out questions of its runs and on questions of other runs (`--on`), next to the
runs' own reward benchmark on the same questions. Items are never selected by what they predict:
among hundreds there are always some that predict a dozen rewarders of one run, and no others.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

import bon
from bon.analysis.correlation.coefficients import correlate
from bon.analysis.correlation.paired_accuracies import Label, Measured
from bon.analysis.data.tables import PAIR_EXTRAS, Tables
from bon.analysis.decision.regret import decide
from bon.analysis.estimators.resampling import estimate, pearson_rows, quantiles
from bon.analysis.results import Options, Point
from bon.analysis.results.phrasing import (
    bounded,
    coefficient,
    evidence,
    interval,
    lost,
    percent,
)
from bon.analysis.results.record import Estimate, Record
from bon.analysis.run import measured
from bon.core.console import say, show_listing
from bon.core.errors import BonError
from bon.core.files import write_atomic
from bon.curating.item_judgements import item_pairs, item_tables, missing_items
from bon.curating.judged_runs import JudgedRun, judged_runs, open_runs
from bon.curating.pools import signature, split_of
from bon.curating.workbench import Workbench
from bon.planning.setup import options as options_of

MIN_REWARDERS = 3
LEVEL = 0.95

Fresh = Literal["held-out", "other run"]
"""Questions: held out of the items' runs, or of another run and not about an item."""


class _Series(Record):
    """A reward benchmark and axis against Best-of-n of a policy on some questions."""

    run: str
    policy: str
    fresh: Fresh
    benchmark: str
    axis: str

    @property
    def questions_key(self) -> tuple[str, str, str]:
        """The run, policy and kind of questions."""
        return self.run, self.policy, self.fresh


class Predicted(_Series):
    """Agreement of a reward benchmark with Best-of-n over the rewarders.

    loss: accuracy lost by choosing the rewarder by the benchmark. agreement: share of concordant
    pairs of rewarders. evidence: r with its interval, in words.
    """

    questions: int
    n: int
    rewarders: int
    pearson: Estimate
    spearman: Estimate
    agreement: Estimate | None
    loss: Estimate | None
    picks: tuple[str, ...]
    evidence: str
    points: tuple[Point, ...]


class Difference(_Series):
    """One r minus another for these rewarders; questions and items are resampled."""

    minus: str
    difference: Estimate


class BenchmarkPrediction(Record):
    """The benchmark next to the standing one (prediction.json).

    beside: r minus r of the standing benchmark on the same questions. unjudged: number of items
    that rewarders lack.
    """

    bon: str
    benchmark: str
    seed: int
    items: int
    pairs: int
    unjudged: tuple[tuple[str, int], ...]
    predicted: tuple[Predicted, ...]
    beside: tuple[Difference, ...]
    sentences: tuple[str, ...] = ()

    def text(self) -> str:
        """Return a table and the sentences for the terminal."""
        rows = [
            {
                "run": row.run,
                "policy": row.policy,
                "questions": f"{row.questions} {row.fresh}",
                "benchmark": f"{row.benchmark} ({row.axis})",
                "r": bounded(row.pearson),
                "rho": bounded(row.spearman),
                "agreement": percent(row.agreement.value, 0) if row.agreement else "unknown",
                "loss": lost(row.loss) if row.loss else "unknown",
            }
            for row in self.predicted
        ]
        lines = [show_listing(rows), "", *self.sentences]
        if self.unjudged:
            names = ", ".join(f"{name} {count}" for name, count in self.unjudged)
            lines.append(f"Scores exclude items without a verdict: {names}.")
        lines.append("Differences of r hold for these rewarders (resampling questions and items).")
        return "\n".join(lines)


def predict(
    bench: Workbench, on: Sequence[Path] = (), *, quiet: bool = False
) -> BenchmarkPrediction:
    """Measure the benchmark against Best-of-N and write prediction.json.

    Raises:
        BonError: no question is held out, or the runs share too few rewarders.
    """
    recipe = bench.recipe
    public = [item for item in bench.items if item.split == "public"]
    if recipe.held_out == 0 and not on:
        raise BonError(
            "no question is held out, so there is nothing to predict",
            f"set held_out in {bench.recipe_path} and propose again, or name another run: --on RUN",
        )
    pairs = item_pairs(public).assign(benchmark=bench.name)
    if pairs.empty:
        raise BonError(
            f"no item of {bench.directory} is about a public question",
            f"lower held_out in {bench.recipe_path} and propose again",
        )
    curated = item_tables(bench, pairs)
    rows: list[_Row] = []
    with ExitStack() as stack:
        runs = stack.enter_context(judged_runs(bench))
        others = stack.enter_context(open_runs(on)) if on else []
        held_out = {
            signature(question): split_of(question, recipe.seed, recipe.held_out) == "held-out"
            for run in runs
            for question in run.store.questions()
        }
        series: list[tuple[JudgedRun, Fresh]] = [(run, "held-out") for run in runs]
        series += [(run, "other run") for run in others]
        for run, fresh in series:
            questions = {
                question.key
                for question in run.store.questions()
                if held_out.get(signature(question), fresh == "other run")
            }
            if questions:
                say(f"Best-of-N of {run.name} on {len(questions)} questions ({fresh})", quiet=quiet)
                standing = runs[0].tables if fresh == "other run" else run.tables
                tables = _tables(run.tables, questions, curated, standing)
                rows += _measure(run, fresh, tables, bench.name)
    if not rows:
        raise BonError(
            "no run has three rewarders with verdicts on the items and on held-out questions",
            "raise held_out and propose again, or see what is missing: bon curate judge "
            f"{bench.directory}",
        )
    unjudged = sorted((name, len(keys)) for name, keys in missing_items(bench).items() if keys)
    result = BenchmarkPrediction(
        bon=bon.__version__,
        benchmark=bench.name,
        seed=recipe.seed,
        items=len(public),
        pairs=len(pairs),
        unjudged=tuple(unjudged),
        predicted=tuple(row.predicted for row in rows),
        beside=tuple(_beside(rows, bench.name)),
    )
    result = result.model_copy(update={"sentences": tuple(_sentences(result))})
    write_atomic(bench.prediction_path, result.model_dump_json(indent=1))
    return result


@dataclass(frozen=True)
class _Row:
    predicted: Predicted
    measured: Measured


def _tables(run: Tables, questions: set[str], curated: Tables, standing: Tables) -> Tables:
    """Return the run on some questions with the new and the standing reward benchmark."""
    own, other = run.judgements, standing.judgements
    own = own[own["item_kind"].eq("question") & own["item"].isin(questions)]
    other = other[other["item_kind"] == "pair"]
    names = set(run.rewarders["rewarder"]) & set(curated.rewarders["rewarder"])
    pairs = pd.concat([standing.pairs, curated.pairs], ignore_index=True)
    judgements = pd.concat([own, other, curated.judgements], ignore_index=True)

    def some(frame: pd.DataFrame, column: str, values: set[str]) -> pd.DataFrame:
        return frame[frame[column].isin(values)].reset_index(drop=True)

    return Tables(
        questions=some(run.questions, "question", questions),
        candidates=some(run.candidates, "question", questions),
        pairs=pairs.fillna(PAIR_EXTRAS),
        judgements=some(judgements, "rewarder", names),
        rewarders=some(run.rewarders, "rewarder", names),
        meta={**run.meta, "ensembles": {}},
    )


def _measure(run: JudgedRun, fresh: Fresh, tables: Tables, name: str) -> Iterator[_Row]:
    """Measure the new benchmark, unweighted and weighted, and the standing one on its axis."""
    own = options_of(run.setup)
    options = own.model_copy(update={"axis": "overall"})
    for label, m in measured(tables, options):
        axes = ("overall", "natural") if label.benchmark == name else (own.axis,)
        if label.leaks == "in" and label.axis in axes and len(m.names) >= MIN_REWARDERS:
            yield _Row(_predicted(run.name, fresh, label, m, options), m)


def _predicted(run: str, fresh: Fresh, label: Label, m: Measured, options: Options) -> Predicted:
    correlation = correlate(m, label, options)
    decision = decide(label, m, options)
    return Predicted(
        run=run,
        policy=label.policy,
        fresh=fresh,
        questions=m.y_estimates[0].n,
        n=label.n or 0,
        benchmark=label.benchmark,
        axis=label.axis,
        rewarders=correlation.num_rewarders,
        pearson=correlation.pearson.estimate,
        spearman=correlation.spearman.estimate,
        agreement=correlation.agreement.agreement if correlation.agreement else None,
        loss=decision.shortlists[0].loss if decision else None,
        picks=decision.picks if decision else (),
        points=correlation.points,
        evidence=evidence(correlation.pearson, correlation.num_rewarders, correlation.families),
    )


def _beside(rows: Sequence[_Row], name: str) -> Iterator[Difference]:
    for row in rows:
        if row.predicted.benchmark == name and row.predicted.axis == "overall":
            for other in rows:
                same = other.predicted.questions_key == row.predicted.questions_key
                if same and other.predicted.benchmark != name:
                    yield _difference(row, other, other.predicted.benchmark)


def _difference(row: _Row, other: _Row, minus: str) -> Difference:
    """Return r minus r of the other over the shared rewarders, from paired draws."""
    names = [name for name in row.measured.names if name in other.measured.names]
    values, draws = [], []
    for m in (row.measured, other.measured):
        m = m.keep(np.array([m.names.index(name) for name in names]))
        assert m.x_draws is not None
        assert m.y_draws is not None
        values.append(float(pearson_rows(m.x, m.y)))
        draws.append(pearson_rows(m.x_draws.T, m.y_draws.T))
    low, high = quantiles(draws[0] - draws[1], LEVEL)
    value = values[0] - values[1]
    series = {name: getattr(row.predicted, name) for name in _Series.model_fields}
    return Difference(
        **series,
        minus=minus,
        difference=estimate(value, low[0], high[0], len(names), "questions and items"),
    )


def _sentences(result: BenchmarkPrediction) -> Iterator[str]:
    """Summarise every policy and set of questions that the items are not about."""
    for row in result.predicted:
        if (row.benchmark, row.axis) != (result.benchmark, "overall"):
            continue
        kind = "held-out questions" if row.fresh == "held-out" else "questions"
        text = f"{row.policy}, {row.questions} {kind} of {row.run}: {row.benchmark} has "
        text += row.evidence
        if row.loss is not None:
            text += f"; choosing by it loses {lost(row.loss)}"
        for other in result.beside:
            if other.questions_key == row.questions_key:
                text += _comparison(other, result)
        yield f"{text}."


def _comparison(beside: Difference, result: BenchmarkPrediction) -> str:
    key = (*beside.questions_key, beside.minus)
    standing = next(p for p in result.predicted if (*p.questions_key, p.benchmark) == key)
    text = f". {beside.minus} has r = {bounded(standing.pearson)} there"
    if standing.loss is not None:
        text += f" and loses {lost(standing.loss)}"
    difference = beside.difference
    if difference.low is None or difference.high is None:
        return text
    value = difference.value or 0.0
    side = "higher" if value >= 0 else "lower"
    text += f": the new r is {coefficient(abs(value))} {side}{interval(difference)}"
    return text + (", not a clear difference" if difference.low <= 0 <= difference.high else "")
