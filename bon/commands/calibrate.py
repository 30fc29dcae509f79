"""`bon calibrate`: a rewarder against labels."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from bon.analysis.results.phrasing import bounded
from bon.commands import options
from bon.commands.options import emit
from bon.core.console import show_listing
from bon.core.errors import EXIT_CODES, BonError

if TYPE_CHECKING:
    import pandas as pd

    from bon.analysis.results.calibration import Calibration, RewarderCalibration


def calibrate(
    source: Annotated[
        Path, Argument(help="Run directory, or a table: item, verdict or score, label, rewarder.")
    ],
    labels: Annotated[
        Path | None,
        Option(help="Labels: a table (item, label, annotator) or a folder of --next."),
    ] = None,
    against: Annotated[
        Path | None, Option(help="Votes of an earlier version on the same items.")
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
    label_next: Annotated[
        int, Option("--next", min=0, help="Number of items to draw for labelling, into --out.")
    ] = 0,
    grades: Annotated[str, Option(help="Choices of /annotate, comma-separated.")] = "right,wrong",
    columns: options.Columns = None,
    seed: Annotated[int, Option(help="Seed of draws.")] = 0,
    out: options.OutFolder = None,
    as_json: options.Json = False,
) -> None:
    """Measure a judge against labels; with --min exit code 0 go, 4 no-go, 3 inconclusive."""
    from bon.analysis.calibration.calibrate import agreement_of, metrics, requirements
    from bon.analysis.calibration.calibrate import calibrate as measure
    from bon.analysis.results import Options
    from bon.curating.labelling.single_answers import labels_of_answers
    from bon.running.labelled_votes import check_columns, labels_of, votes_of, with_labels

    settings, names = Options(seed=seed), options.columns_of(columns)
    required = metrics(minima or [])
    check_columns(names, [*filter(None, (source, against))], [*filter(None, (labels,))])
    votes = _of(votes_of(source, names, passing), rewarder, source)
    earlier = None
    if against is not None:
        earlier = _of(votes_of(against, names, passing), rewarder, against)
    people, origin = None, "the answer key" if source.is_dir() else str(source)
    if labels is not None:
        folder = labels.is_dir()
        table = labels_of_answers(labels, passing) if folder else labels_of(labels, names, passing)
        consensus, people = agreement_of(table, settings)
        votes, origin = with_labels(votes, consensus, table), str(labels)
    if label_next:
        from bon.curating.labelling.single_answers import draw_answers

        named = tuple(grades.split(","))
        blind = votes.assign(label=float("nan")) if source.is_dir() and labels is None else votes
        typer.echo(
            draw_answers(blind, label_next, out or Path(), source, names, named, seed), err=True
        )
        if not votes["label"].notna().any():
            return
    result = measure(
        votes,
        settings,
        labels=origin,
        threshold=threshold,
        people=people,
        earlier=earlier,
        left_out=votes.attrs.get("left_out", ""),
    )
    if out is not None:
        _write(result, out)
    checks = requirements(result, required)
    lines = [
        f"{c.answer}: {c.rewarder} {c.metric} {bounded(c.value)}, required {c.minimum:g}"
        for c in checks
    ]
    value = {**result.model_dump(mode="json"), "requirements": checks} if checks else result
    emit(value, lambda: "\n".join([calibration_text(result), *lines]), as_json)
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


def _write(result: "Calibration", out: Path) -> None:
    from bon.analysis import plots
    from bon.core.files import write_atomic

    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / "calibration.json", json.dumps(result.model_dump(mode="json"), indent=1))
    if any(row.reliability for row in result.rewarders):
        plots.save(plots.reliability(result), out / "reliability")


def calibration_text(result: "Calibration") -> str:
    """Format a calibration: a table of rewarders, then what each needs or warns of."""
    lines = [f"labels: {result.labels}", ""]
    lines += [show_listing([_row(row) for row in result.rewarders]), ""]
    if people := result.people:
        lines.append(
            f"{people.num_annotators} annotators: equal labels {bounded(people.agreement)}, "
            f"Krippendorff's alpha {bounded(people.alpha)} on {people.num_items} items"
        )
    for row in result.rewarders:
        lines += _details(row)
    lines += [drift.sentence for drift in result.drift]
    lines += [result.left_out] if result.left_out else []
    return "\n".join(lines).rstrip()


def _row(row: "RewarderCalibration") -> dict[str, str]:
    overall = row.overall
    raw = next((r for r in row.reliability if r.map == "raw"), None)
    return {
        "rewarder": row.rewarder,
        "of": row.kind,
        "items": f"{overall.num_items:,}",
        "accuracy": bounded(overall.accuracy),
        "TPR": bounded(overall.tpr),
        "TNR": bounded(overall.tnr),
        "κ": bounded(overall.kappa),
        "AUC": bounded(row.auc),
        "calibration error": bounded(raw.rmsce) if raw else "-",
        "right": bounded(overall.base_rate),
        "lean": bounded(row.lean),
        "votes agree": bounded(row.self_consistency),
        "cost/correct": "-" if row.cost_per_correct is None else f"${row.cost_per_correct:.4g}",
    }


def _details(row: "RewarderCalibration") -> Iterator[str]:
    if (p := row.prevalence) is not None:
        yield (
            f"{row.rewarder}: of {p.num_items:,} items {bounded(p.estimate)} are right; "
            f"verdicts alone say {p.judged:.2f}, labels alone {bounded(p.labelled)} "
            f"(together worth {p.worth:,} labels)"
        )
    for b in row.biases:
        if (b.bias.low or 0) > 0 or (b.bias.high or 0) < 0:
            yield (
                f"  - {row.rewarder}: {b.feature} changes the share of positive verdicts at equal "
                f"label by {bounded(b.bias)} ({b.num_items:,} items have it)"
            )
    for warning in row.warnings:
        yield f"  - {row.rewarder}: {warning}"
