"""Commands that import and export runs and checkpoints."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from bon.commands import options
from bon.commands.options import echo


def import_(
    files: Annotated[
        list[Path],
        Argument(help="Files of responses, scores or verdicts (bon list formats)."),
    ],
    policy: Annotated[str, Option(help="Policy that generated the responses.")] = "",
    out: options.Out = Path("runs/import"),
    extractor: Annotated[
        str, Option(help="Answer extractor: official or strict; a model reads in a `bon run`.")
    ] = "official",
    grader: Annotated[
        str, Option(help="Grader of free answers; else the one that fits the right answers.")
    ] = "",
    columns: options.Columns = None,
    form: options.Format = "",
    questions: options.Questions = "",
    benchmark: Annotated[str, Option(help="Name of the benchmark; else its file's name.")] = "",
    replace: options.Replace = False,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Create a run from responses, scores and verdicts."""
    from bon.commands.decide_text import pass_at_1
    from bon.importing.import_files import import_files
    from bon.policies.extractors import EXTRACTORS
    from bon.running.regrade import regraded
    from bon.running.reporting import report_run
    from bon.storage.store import Store

    silent = quiet or as_json
    answers = import_files(
        files,
        policy,
        out,
        extractor=extractor,
        grader=grader,
        columns=options.columns_of(columns),
        form=form,
        questions=questions,
        benchmark=benchmark,
        replace=replace,
        quiet=silent,
    )
    if answers.questions and not as_json:
        lettered = sum(bool(row.question.options) for row in answers.questions)
        if 0 < lettered < len(answers.questions):
            echo(f"of the {lettered:,} questions with options:")
        echo(pass_at_1(regraded(answers, EXTRACTORS)))
    with Store(out, readonly=True) as store:
        judged = store.has("judgements", "TRUE")
    report = report_run(out, quiet=silent or not judged)
    if not (silent or judged):
        echo(f"report: {report}")
    options.print_results(report, as_json)


def export(
    directory: options.Directory,
    out: Annotated[
        Path | None, Option("--out", "-o", help="Output folder; RUN/export/FORMAT by default.")
    ] = None,
    form: Annotated[
        str, Option("--format", help="Format to write (bon list exports).")
    ] = "parquet",
    by: Annotated[
        str | None,
        Option(
            "--preferences", help="Export training pairs, ranked by this rewarder or 'correct'."
        ),
    ] = None,
    pairs: Annotated[
        Literal["best-worst", "all"],
        Option(help="best-worst: one pair per question; all: every pair that differs."),
    ] = "best-worst",
    replace: Annotated[
        bool, Option("--replace", help="Overwrite files with other contents.")
    ] = False,
) -> None:
    """Export a run as tables, training data or a dataset."""
    from bon.exports import export_run
    from bon.exports.preferences import (
        BY_KEY,
        Preferences,
        num_unjudged_by_key,
        unjudged_note,
    )
    from bon.running.reporting import open_run
    from bon.storage.store import Store

    preferences = None
    if by or pairs != "best-worst":
        preferences = Preferences(by or BY_KEY, pairs)
    if by and by != BY_KEY:
        with Store(directory, readonly=True) as store:
            if count := num_unjudged_by_key(open_run(store), store, by):
                echo(unjudged_note(count, directory), err=True)
    out = out or directory / "export" / ("" if form == "parquet" else form)
    for path in export_run(directory, out, form, preferences, replace=replace):
        echo(path)
