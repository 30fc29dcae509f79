"""`bon curate predict`: does the benchmark order rewarders as Best-of-N does, where it matters?

Measured on questions that its items are not about: those held out of the runs it was made of, and
those of other runs (`--on`). Beside it stands the runs' own reward benchmark, on the same
questions. Items are those that were drawn. They are not chosen by what they predict: among some
hundred there are always some that predict a dozen rewarders of one run, and no others.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

import bon
from bon.analysis.correlation.coefficients import correlate
from bon.analysis.correlation.measured import Label, Measured
from bon.analysis.data.tables import PAIR_EXTRAS, Tables
from bon.analysis.decision.regret import decide
from bon.analysis.estimators.resampling import estimate, pearson_rows, quantiles
from bon.analysis.results import Options
from bon.analysis.results.phrasing import evidence
from bon.analysis.run import measured
from bon.core.errors import BonError
from bon.core.files import write_atomic
from bon.curating.judged_runs import JudgedRun, judged_runs, opened
from bon.curating.on_items import item_pairs, said_tables, unjudged
from bon.curating.predicted import BenchmarkPrediction, Difference, Fresh, Predicted, sentences_of
from bon.curating.question_pools import signature, split_of
from bon.curating.workbench import Workbench
from bon.running.saying import say
from bon.running.setup import options as options_of

MIN_REWARDERS = 3
LEVEL = 0.95


def predict(
    bench: Workbench, on: Sequence[Path] = (), *, quiet: bool = False
) -> BenchmarkPrediction:
    """Measure the benchmark against Best-of-N and write prediction.json.

    Raises:
        BonError: nothing was held out, or a run shares too few rewarders.
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
            f"no item of the public questions of {bench.directory} has a right and a wrong answer",
            "give other strategies than ties a quota, and propose again",
        )
    curated = said_tables(bench, pairs)
    out = _filtered_by(curated, recipe.filters.ensemble)
    with ExitStack() as stack:
        runs = stack.enter_context(judged_runs(bench))
        others = stack.enter_context(opened(on)) if on else []
        own = {
            signature(question): split_of(question, recipe.seed, recipe.held_out)
            for run in runs
            for question in run.store.questions()
        }
        wanted: list[tuple[JudgedRun, Fresh]] = [(run, "held-out") for run in runs]
        wanted += [(run, "same questions") for run in runs] + [(run, "other run") for run in others]
        rows: list[_On] = []
        for run, fresh in wanted:
            keep = {"held-out": {"held-out"}, "same questions": {"public"}}.get(
                fresh, {"held-out", ""}
            )
            asked = {q.key for q in run.store.questions() if own.get(signature(q), "") in keep}
            if not asked:
                continue
            say(f"Best-of-N of {run.name} on {len(asked)} questions ({fresh})", quiet=quiet)
            standing = run.tables if fresh != "other run" else runs[0].tables
            tables = _tables(run.tables, asked, curated, standing, out)
            rows += _measured(run, fresh, tables, bench.name)
    if not rows:
        raise BonError(
            "no run has three rewarders with verdicts on the items and on questions that were "
            "held out",
            "raise held_out and propose again, or see what is missing: bon curate judge "
            f"{bench.directory}",
        )
    found = BenchmarkPrediction(
        bon=bon.__version__,
        benchmark=bench.name,
        seed=recipe.seed,
        items=len(public),
        pairs=len(pairs),
        left_out=tuple(sorted(out)),
        unjudged=tuple(sorted((name, n) for name, n in unjudged(bench).items() if n)),
        predicted=tuple(row.predicted for row in rows),
        drops=tuple(_drops(rows)),
        beside=tuple(_beside(rows, bench.name)),
    )
    found = found.model_copy(update={"sentences": sentences_of(found)})
    write_atomic(bench.prediction_path, found.model_dump_json(indent=1))
    return found


@dataclass(frozen=True)
class _On:
    """One benchmark against one policy's Best-of-N, with what its numbers were made of."""

    predicted: Predicted
    measured: Measured

    @property
    def about(self) -> tuple[str, str, str, str]:
        """The run, the policy, the benchmark and its axis."""
        one = self.predicted
        return one.run, one.policy, one.benchmark, one.axis


def _filtered_by(curated: Tables, models: Sequence[str]) -> set[str]:
    """The rewarders that filtered, and those of their families: hard for them by construction."""
    table = curated.rewarders
    families = set(table.loc[table["rewarder"].isin(models), "family"].dropna()) - {""}
    relatives = table.loc[table["family"].isin(families), "rewarder"]
    return {*models, *map(str, relatives)}


def _tables(
    run: Tables, asked: set[str], curated: Tables, standing: Tables, out: set[str]
) -> Tables:
    """The run on some of its questions, with the new and the standing reward benchmark."""
    mine = run.judgements
    about = mine["item_kind"].eq("question") & mine["item"].isin(asked)
    theirs = standing.judgements[standing.judgements["item_kind"] == "pair"]
    names = set(run.rewarders["rewarder"]) & set(curated.rewarders["rewarder"]) - out
    rewarders = run.rewarders[run.rewarders["rewarder"].isin(names)].reset_index(drop=True)
    pairs = pd.concat([standing.pairs, curated.pairs], ignore_index=True)
    said = pd.concat([mine[about], theirs, curated.judgements], ignore_index=True)
    return Tables(
        questions=run.questions[run.questions["question"].isin(asked)].reset_index(drop=True),
        candidates=run.candidates[run.candidates["question"].isin(asked)].reset_index(drop=True),
        pairs=pairs.fillna(PAIR_EXTRAS),
        judgements=said[said["rewarder"].isin(names)].reset_index(drop=True),
        rewarders=rewarders,
        meta={**run.meta, "ensembles": {}},
    )


def _measured(run: JudgedRun, fresh: Fresh, tables: Tables, name: str) -> Iterator[_On]:
    """The new benchmark, every pair alike and weighted; the standing one as the run reads it."""
    own = options_of(run.setup)
    options = own.model_copy(update={"axis": "overall"})
    for label, m in measured(tables, options):
        axes = ("overall", "natural") if label.benchmark == name else (own.axis,)
        if label.leaks == "in" and label.axis in axes and len(m.names) >= MIN_REWARDERS:
            yield _On(_predicted(run.name, fresh, label, m, options), m)


def _predicted(run: str, fresh: Fresh, label: Label, m: Measured, options: Options) -> Predicted:
    found = correlate(m, label, options)
    decision = decide(label, m, options)
    return Predicted(
        run=run,
        policy=label.policy,
        fresh=fresh,
        questions=m.y_estimates[0].n,
        n=label.n or 0,
        benchmark=label.benchmark,
        axis=label.axis,
        rewarders=found.num_rewarders,
        pearson=found.pearson.estimate,
        spearman=found.spearman.estimate,
        agreement=found.agreement.agreement if found.agreement else None,
        loss=decision.shortlists[0].loss if decision else None,
        picks=decision.picks if decision else (),
        points=found.points,
        evidence=evidence(found.pearson, found.num_rewarders, found.families),
    )


def _drops(rows: Sequence[_On]) -> Iterator[Difference]:
    """Of each benchmark r on the questions of the items minus r on held-out ones."""
    held_out = {row.about: row for row in rows if row.predicted.fresh == "held-out"}
    for row in rows:
        other = held_out.get(row.about)
        if row.predicted.fresh == "same questions" and other is not None:
            yield _difference(row, other, "the same on held-out questions")


def _beside(rows: Sequence[_On], name: str) -> Iterator[Difference]:
    """r of the new benchmark minus r of the standing ones on the same questions."""
    for row in rows:
        one = row.predicted
        if one.benchmark != name or one.axis != "overall":
            continue
        for other in rows:
            there = other.predicted
            same = (one.run, one.policy, one.fresh) == (there.run, there.policy, there.fresh)
            if same and there.benchmark != name:
                yield _difference(row, other, there.benchmark)


def _difference(one: _On, other: _On, minus: str) -> Difference:
    """r of one minus r of the other over the rewarders of both, with the draws of both."""
    names = [name for name in one.measured.names if name in other.measured.names]
    values, drawn = [], []
    for m in (one.measured, other.measured):
        m = m.keep(np.array([m.names.index(name) for name in names]))
        assert m.x_draws is not None
        assert m.y_draws is not None
        values.append(float(pearson_rows(m.x, m.y)))
        drawn.append(pearson_rows(m.x_draws.T, m.y_draws.T))
    low, high = quantiles(drawn[0] - drawn[1], LEVEL)
    found = one.predicted
    return Difference(
        run=found.run,
        policy=found.policy,
        fresh=found.fresh,
        benchmark=found.benchmark,
        axis=found.axis,
        minus=minus,
        difference=estimate(
            values[0] - values[1], low[0], high[0], len(names), "questions and items"
        ),
    )
