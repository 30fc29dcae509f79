"""`bon curate predict`: how well the benchmark predicts Best-of-N on other questions.

Measured on held-out questions of its runs and on questions of other runs (`--on`), next to the
runs' own reward benchmark on the same questions. Items are never selected by what they predict:
among hundreds there are always some that predict a dozen rewarders of one run, and no others.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

import bon
from bon.analysis.correlation.coefficients import correlate
from bon.analysis.correlation.paired_accuracies import Measured
from bon.analysis.data.tables import PAIR_EXTRAS, Tables
from bon.analysis.decision.regret import decide
from bon.analysis.estimators.resampling import estimate, pearson_rows, quantiles
from bon.analysis.results import Point
from bon.analysis.results.phrasing import bounded, lost, percent
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


class Difference(Record):
    """r minus r of another benchmark for these rewarders; questions and items are resampled."""

    minus: str
    difference: Estimate


class Predicted(Record):
    """Agreement of a reward benchmark with Best-of-n of a policy on some questions.

    loss: accuracy lost by choosing the rewarder by the benchmark. agreement: share of concordant
    pairs of rewarders. differences: from the standing benchmarks on the same questions.
    """

    run: str
    policy: str
    fresh: Fresh
    questions: int
    n: int
    benchmark: str
    axis: str
    rewarders: int
    pearson: Estimate
    spearman: Estimate
    agreement: Estimate | None
    loss: Estimate | None
    points: tuple[Point, ...]
    differences: tuple[Difference, ...] = ()


class BenchmarkPrediction(Record):
    """The benchmark next to the standing one (prediction.json).

    unjudged: number of items that rewarders lack.
    """

    bon: str
    benchmark: str
    seed: int
    items: int
    pairs: int
    unjudged: tuple[tuple[str, int], ...]
    predicted: tuple[Predicted, ...]

    def text(self) -> str:
        """Return a table and remarks for the terminal."""
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
                "difference of r": "; ".join(
                    f"{bounded(other.difference)} from {other.minus}" for other in row.differences
                ),
            }
            for row in self.predicted
        ]
        lines = [show_listing(rows), ""]
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
    predicted: list[Predicted] = []
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
                predicted += _measure(run, fresh, tables, bench.name)
    if not predicted:
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
        predicted=tuple(predicted),
    )
    write_atomic(bench.prediction_path, result.model_dump_json(indent=1))
    return result


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


def _measure(run: JudgedRun, fresh: Fresh, tables: Tables, name: str) -> Iterator[Predicted]:
    """Measure the new benchmark, unweighted and weighted, and the standing one on its axis."""
    own = options_of(run.setup)
    options = own.model_copy(update={"axis": "overall"})
    rows = [
        (label, m)
        for label, m in measured(tables, options)
        if label.leaks == "in"
        and label.axis in (("overall", "natural") if label.benchmark == name else (own.axis,))
        and len(m.names) >= MIN_REWARDERS
    ]
    for label, m in rows:
        correlation = correlate(m, label, options)
        decision = decide(label, m, options)
        new = (label.benchmark, label.axis) == (name, "overall")
        yield Predicted(
            run=run.name,
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
            points=correlation.points,
            differences=tuple(
                Difference(minus=other.benchmark, difference=_difference(m, standing))
                for other, standing in (rows if new else ())
                if other.benchmark != name and other.policy == label.policy
            ),
        )


def _difference(one: Measured, other: Measured) -> Estimate:
    """Return r minus r of the other over the shared rewarders, from paired draws."""
    names = [name for name in one.names if name in other.names]
    values, draws = [], []
    for m in (one, other):
        m = m.keep(np.array([m.names.index(name) for name in names]))
        assert m.x_draws is not None
        assert m.y_draws is not None
        values.append(float(pearson_rows(m.x, m.y)))
        draws.append(pearson_rows(m.x_draws.T, m.y_draws.T))
    low, high = quantiles(draws[0] - draws[1], LEVEL)
    value = values[0] - values[1]
    return estimate(value, low[0], high[0], len(names), "questions and items")
