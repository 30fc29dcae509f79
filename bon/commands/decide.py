"""Commands that analyse finished runs; none loads a model."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from bon.commands import options
from bon.commands.options import emit
from bon.core.errors import EXIT_CODES, BonError, some

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from bon.analysis.results import Results


def report(
    directory: options.Directory,
    figures: Annotated[
        bool, Option("--figures", help="Also write figures as PNG, SVG and PDF.")
    ] = False,
    sets: Annotated[
        list[str] | None,
        Option(
            "--set",
            metavar="KEY=VALUE",
            help="Override an analysis setting, e.g. analysis.aggregate=geometric",
        ),
    ] = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Analyse a run and write the report."""
    from bon.running.reporting import report_run

    silent = quiet or as_json
    path = report_run(directory, quiet=silent, figures=figures, settings=sets or [])
    options.print_results(path, as_json)


def gate(
    directory: options.Directory,
    min_gain: Annotated[float, Option(min=-1, max=1, help="Minimum gain; 0.02 is two points.")],
    rewarder: Annotated[str | None, Option(help="Default: the benchmark's best.")] = None,
    over: Annotated[Literal["pass@1", "majority"], Option(help="Baseline of the gain.")] = "pass@1",
    as_json: options.Json = False,
) -> None:
    """Test a rewarder's gain; exit code 0 go, 4 no-go, 3 inconclusive."""
    from bon.analysis.decision.gate import gate as decide
    from bon.running.reporting import read_results

    results = read_results(directory)
    gates = decide(results, min_gain, rewarder, over)
    missing = results.completeness.missing if results.completeness else ()
    answer = max((gate.answer for gate in gates), key=lambda a: EXIT_CODES[a])
    lines = [gate.sentence for gate in gates]
    if missing:
        answer = "inconclusive"
        lines.append(f"inconclusive: the run is not complete: {some(missing)}")
    value = {"answer": answer, "missing": missing, "gates": gates}
    emit(value, lambda: "\n".join(lines), as_json)
    raise typer.Exit(EXIT_CODES[answer])


def compare(
    before: options.Directory,
    after: Annotated[Path, Argument(help="Run directory to compare with it.")],
    as_json: options.Json = False,
) -> None:
    """Compare the accuracy of rewarders' choices between two runs, and list changed questions."""
    from bon.analysis.decision.changes import run_differences
    from bon.commands.decide_text import comparison_text

    differences = run_differences(_choices(before), _choices(after))
    emit(differences, lambda: comparison_text(differences), as_json)


def pool(
    paths: Annotated[
        list[Path],
        Argument(help="Run directories, tables as of bon correlate, or folders of tables."),
    ],
    out: Annotated[
        Path | None, Option("--out", "-o", help="Folder for a page, figures and JSON.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Pool runs and published tables: how well do benchmarks predict in the next study?"""
    from bon.analysis import plots
    from bon.analysis.decision.meta_analysis import pool as pool_studies
    from bon.analysis.decision.pooled_studies import studies_of_runs, studies_of_table
    from bon.analysis.results import Description
    from bon.commands.decide_text import pooled_text
    from bon.core.validation import validate
    from bon.experiment.yamlfile import read_document

    warnings: list[str] = []
    runs = read_runs([path for path in paths if not _tables(path)])
    studies, level = studies_of_runs(runs, warnings)
    sources: dict[str, Description] = {}
    for name, table in _distinct([table for path in paths for table in _tables(path)]).items():
        if (beside := table.with_suffix(".yaml")).is_file():
            document = read_document(beside)
            sources[name] = validate(Description, document.data, document.origin)
        studies += studies_of_table(name, table, sources.get(name), warnings)
    pooled = pool_studies(studies, sources, level, warnings)
    save(
        out, "pool", pooled.model_dump(mode="json"), {"forest": plots.forest(pooled)} if out else {}
    )
    if out is not None:
        from bon.analysis.decision.pooled_tables import as_markdown
        from bon.analysis.report.evidence_page import evidence_page
        from bon.core.files import write_atomic

        write_atomic(out / "index.html", evidence_page(pooled))
        write_atomic(out / "evidence.md", as_markdown(pooled))
    emit(pooled, lambda: pooled_text(pooled) + (f"\n{out / 'index.html'}" if out else ""), as_json)


def _tables(path: Path) -> list[Path]:
    """Return the tables that a path names, none if it is a run."""
    if path.suffix.lower() in (".csv", ".tsv"):
        return [path]
    if any((path / name).is_file() for name in ("results.json", "run.sqlite")):
        return []
    found = sorted(path.glob("*.csv")) if path.is_dir() else []
    if not found:
        raise BonError(
            f"{path} is neither a run nor a table nor a folder of tables",
            "name the directory of a run, a CSV file, or a folder with some",
        )
    return found


def recommend(
    directories: options.Directories,
    budget: Annotated[float | None, Option(min=0, help="Maximum cost per question.")] = None,
    cost: Annotated[
        Literal["dollars", "seconds", "calls"] | None, Option(help="Default: the first recorded.")
    ] = None,
    out: options.OutFolder = None,
    as_json: options.Json = False,
) -> None:
    """Recommend a rewarder by gain and cost over finished runs, with those tied with it."""
    from bon.analysis.decision.recommend import recommend as choose
    from bon.commands.decide_text import recommendation_text

    advice = choose(read_runs(directories), budget, cost)
    save(out, "recommendation", advice.model_dump(mode="json"), {})
    emit(
        advice, lambda: f"{recommendation_text(advice)}\n{out or _report(directories[0])}", as_json
    )


def correlate(
    table: Annotated[
        Path,
        Argument(help="CSV: rewarder, benchmark scores, outcomes such as best_of_8, family."),
    ],
    outcome: Annotated[
        list[str] | None,
        Option(metavar="COLUMN", help="A column to predict; repeatable. Default: by their names."),
    ] = None,
    benchmark: Annotated[
        list[str] | None,
        Option(metavar="COLUMN", help="A column that predicts; repeatable. Default: all others."),
    ] = None,
    out: options.OutFolder = None,
    as_json: options.Json = False,
) -> None:
    """Correlate published benchmark scores with Best-of-N accuracy or other outcomes."""
    from bon.analysis import plots
    from bon.analysis.published import correlate_table
    from bon.commands.decide_text import correlation_text

    results = correlate_table(table, outcomes=outcome or (), benchmarks=benchmark or ())
    figures = {"correlation": plots.correlation(results)} if out and results.correlations else {}
    save(out, "correlation", results.model_dump(mode="json"), figures)
    emit(results, lambda: correlation_text(results) + (f"\n{out}" if out else ""), as_json)


def regrade(
    files: Annotated[
        list[Path], Argument(help="Files of responses (bon list formats), or a run directory.")
    ],
    extractor: Annotated[
        list[str] | None,
        Option(
            help="Answer extractor: all, official, strict, lmms-eval or vlmevalkit; for questions "
            "without options a grader: exact, number, ...; repeatable."
        ),
    ] = None,
    pattern: Annotated[str, Option(help="Another extractor: an RE2 pattern with one group.")] = "",
    columns: options.Columns = None,
    form: options.Format = "",
    questions: options.Questions = "",
    labels: Annotated[
        Path | None,
        Option(help="Labels of a run's answers: a table (item, label; also probability)."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Compare accuracy across answer extractors on the same responses, or a grader with labels."""
    from bon.commands.decide_text import grader_text, regrade_text
    from bon.importing.import_files import refuse_unused
    from bon.running.labelled_votes import check_columns, labels_of
    from bon.running.regrade import against_labels, extractors, regrade_files

    of_run = len(files) == 1 and (files[0] / "run.sqlite").is_file()
    if of_run and not labels:
        refuse_unused("a run's responses are read", columns=columns)
    if of_run:
        refuse_unused("a run holds its questions", format=form, questions=questions)
    if labels is not None:
        refuse_unused("labels correct the run's own grader", extractor=extractor, pattern=pattern)
        if not of_run:
            raise BonError("--labels corrects the accuracies of one run", "give its directory")
        names = options.columns_of(columns)
        check_columns(names, [], [labels])
        check = against_labels(files[0], labels_of(labels, names, None))
        emit(check, lambda: grader_text(check), as_json)
        return
    chosen = extractors(extractor or ["all"], pattern)
    scores = regrade_files(
        files,
        chosen,
        graders=extractor or ["all"],
        columns=options.columns_of(columns),
        form=form,
        questions=questions,
    )
    emit(scores, lambda: regrade_text(scores), as_json)


def read_runs(directories: list[Path]) -> "list[tuple[str, Results]]":
    """Read the results of runs under distinct names; BonError if a run is named twice."""
    from bon.running.reporting import read_results

    return [(name, read_results(path)) for name, path in _distinct(directories).items()]


def _distinct(paths: list[Path]) -> dict[str, Path]:
    """Name runs or tables; BonError if one is named twice."""
    names: dict[Path, str] = {}
    for path in paths:
        whole = path.resolve()
        if whole in names:
            raise BonError(f"{path} occurs twice", "name each run and table once")
        short = path.stem if path.suffix in (".csv", ".tsv") else whole.name
        names[whole] = str(path) if short in names.values() else short
    return {name: path for path, name in names.items()}


def _choices(directory: Path) -> "pd.DataFrame":
    import pandas as pd

    from bon.running.reporting import read_results

    read_results(directory)  # which writes them again if the run has changed
    path = directory / "tables" / "choices.parquet"
    if not path.is_file():
        raise BonError(
            f"{directory} holds no choices of rewarders (tables/choices.parquet)",
            f"bon report {directory}",
        )
    return pd.read_parquet(path)


def _report(directory: Path) -> Path:
    """Return the report of a run or results file."""
    return (directory if directory.is_dir() else directory.parent) / "report.html"


def save(out: Path | None, name: str, value: Any, figures: "Mapping[str, Figure]") -> None:
    """Write NAME.json and the figures into a folder."""
    if out is None:
        return
    from bon.core.files import write_atomic

    out.mkdir(parents=True, exist_ok=True)
    write_atomic(out / f"{name}.json", json.dumps(value, indent=1))
    for figure_name, figure in figures.items():
        from bon.analysis import plots

        plots.save(figure, out / figure_name)
