"""`bon calibrate`: a rewarder against labels."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from bon.commands import options
from bon.commands.options import emit
from bon.core.errors import EXIT_CODES, BonError

if TYPE_CHECKING:
    import pandas as pd


def calibrate(
    source: Annotated[
        Path, Argument(help="Run directory, or a table: item, verdict or score, label, rewarder.")
    ],
    labels: Annotated[
        Path | None,
        Option(help="Labels: a table (item, label; also annotator, probability)."),
    ] = None,
    rewarder: Annotated[str | None, Option(help="Only this rewarder.")] = None,
    threshold: Annotated[float | None, Option(help="Lowest score that counts as right.")] = None,
    minima: Annotated[
        list[str] | None,
        Option("--min", metavar="METRIC=VALUE", help="Test a minimum, e.g. kappa=.6; repeatable."),
    ] = None,
    passing: Annotated[
        float | None, Option("--pass", help="Grades from it on are right (labels and verdicts).")
    ] = None,
    columns: options.Columns = None,
    seed: Annotated[int, Option(help="Seed of draws.")] = 0,
    out: options.OutFolder = None,
    as_json: options.Json = False,
) -> None:
    """Measure a judge against labels; with --min exit code 0 go, 4 no-go, 3 inconclusive."""
    from bon.analysis.calibration.calibrate import agreement_of, metrics, requirements
    from bon.analysis.calibration.calibrate import calibrate as measure
    from bon.analysis.results import Options
    from bon.commands.decide import save
    from bon.commands.decide_text import calibration_text
    from bon.running.labelled_votes import check_columns, labels_of, votes_of, with_labels

    settings, names = Options(seed=seed), options.columns_of(columns)
    required = metrics(minima or [])
    check_columns(names, [source], [*filter(None, (labels,))])
    votes = _of(votes_of(source, names, passing), rewarder, source)
    people, origin = None, "the answer key" if source.is_dir() else str(source)
    if labels is not None:
        table = labels_of(labels, names, passing)
        consensus, people = agreement_of(table, settings)
        votes, origin = with_labels(votes, consensus, table), str(labels)
    result = measure(
        votes,
        settings,
        labels=origin,
        threshold=threshold,
        people=people,
        left_out=votes.attrs.get("left_out", ""),
    )
    save(out, "calibration", result.model_dump(mode="json"), {})
    checks = requirements(result, required)
    value = {**result.model_dump(mode="json"), "requirements": checks} if checks else result
    emit(value, lambda: calibration_text(result, checks), as_json)
    if checks:
        raise typer.Exit(max(EXIT_CODES[check.answer] for check in checks))


def _of(votes: "pd.DataFrame", rewarder: str | None, source: Path) -> "pd.DataFrame":
    if votes.empty:
        raise BonError(f"{source} holds no judgements of single answers or pairs", "bon run first")
    names = sorted(set(votes["rewarder"]))
    if rewarder is None:
        return votes
    if rewarder not in names:
        raise BonError(f"{source} has no rewarder {rewarder!r}", f"one of {', '.join(names)}")
    return votes[votes["rewarder"] == rewarder]
