"""`bon report`, `export`, `import`, `merge` and `correlate`: what needs no model."""

from pathlib import Path
from typing import Annotated

import typer

from bon.commands.options import Json, Out, Quiet, Replace, print_results
from bon.core.errors import BonError
from bon.core.shortlived import ends_soon


def report(
    directory: Annotated[
        Path, typer.Argument(help="Run directory, or the rewards.sqlite of a server.")
    ],
    figures: Annotated[
        bool, typer.Option("--figures", help="Also write every figure as PNG, SVG and PDF.")
    ] = False,
    bundle: Annotated[
        Path | None,
        typer.Option(help="Also make this a folder that any web server can serve."),
    ] = None,
    training: Annotated[
        str | None, typer.Option("--run", help="Of rewards: the training run to report.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Count differently, e.g. analysis.aggregate=geometric",
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Analyse a run, or the rewards that a training run was given; loads no model."""
    from bon.running.reporting import report_run
    from bon.running.rewarded import rewards_file

    if (rewards := rewards_file(directory)) is not None:
        from bon.commands.rewards_report import report_rewards

        text = report_rewards(rewards, training, figures=figures, as_json=as_json)
        typer.echo(text)
        return
    if training is not None:
        raise BonError(f"{directory} holds no rewards", "leave out --run, or name rewards.sqlite")
    ends_soon()
    silent = quiet or as_json
    path = report_run(directory, quiet=silent, figures=figures, bundle=bundle, settings=sets or [])
    print_results(path, as_json)


def export(
    directory: Annotated[Path, typer.Argument(help="Run directory.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder; DIRECTORY/export/FORMAT.")
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="What to write (bon list exports).")
    ] = "parquet",
    by: Annotated[
        str | None,
        typer.Option(
            "--preferences", help="Training pairs, ranked by this rewarder or by 'correct'."
        ),
    ] = None,
    pairs: Annotated[
        str,
        typer.Option(
            help="best-worst: one pair per question; all: every two; margin: those --margin apart."
        ),
    ] = "best-worst",
    margin: Annotated[float | None, typer.Option(help="Least difference of two scores.")] = None,
    unpaired: Annotated[
        bool, typer.Option("--unpaired", help="Single answers with a label (KTO), not pairs.")
    ] = False,
    hub_folder: Annotated[
        Path | None,
        typer.Option("--hub-folder", help="Make this a dataset folder for the hub, with a card."),
    ] = None,
    organisation: Annotated[
        str, typer.Option(help="Who made the run, for stores that ask (every-eval-ever).")
    ] = "",
) -> None:
    """Write a run for others: tables, training data, evaluation stores, pages of models."""
    from bon.exports import export_run
    from bon.exports.preferences import BY_KEY, Preferences

    if hub_folder is not None:
        form, out = "hub-folder", hub_folder
    asked = by or unpaired or margin is not None or pairs != "best-worst"
    wanted = Preferences(by or BY_KEY, pairs, margin, unpaired) if asked else None
    tables = form in ("parquet", "jsonl")
    out = out or directory / "export" / ("" if tables else form)
    for path in export_run(directory, out, form, wanted, organisation):
        typer.echo(path)


def import_(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Files of answers, scores or verdicts (bon list formats); or an export of bon."
        ),
    ],
    policy: Annotated[str, typer.Option(help="Name of the policy that gave the answers.")] = "",
    out: Out = Path("runs/import"),
    reader: Annotated[str, typer.Option(help="Answer reader: official or strict.")] = "official",
    columns: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ROLE=COLUMN", help="Where a role is, e.g. response=output; may be repeated."
        ),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", help="What the files are; else known by their content.")
    ] = "",
    questions: Annotated[
        str,
        typer.Option(help="What logs without questions are about: a benchmark, a file or a run."),
    ] = "",
    benchmark: Annotated[
        str, typer.Option(help="Name of the reward benchmark of scored pairs; else its file's.")
    ] = "",
    replace: Replace = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Make a run of what exists already: answers (several files: several candidates), scores."""
    from bon.commands.importing import import_files
    from bon.running.reporting import report_run

    silent = quiet or as_json
    import_files(
        files,
        policy,
        out,
        reader=reader,
        columns=columns or [],
        form=form,
        questions=questions,
        benchmark=benchmark,
        replace=replace,
        quiet=silent,
    )
    print_results(report_run(out, quiet=quiet or as_json), as_json)


def merge(
    directories: Annotated[list[Path], typer.Argument(help="Run directories of one experiment.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="New run directory.")],
    partial: Annotated[
        bool, typer.Option("--partial", help="Also where shards are missing.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Put runs of one experiment together, such as its shards (bon run --shard 3/8)."""
    from bon.running.merging import merge_runs
    from bon.running.reporting import report_run

    silent = quiet or as_json
    merge_runs(directories, out, partial=partial, quiet=silent)
    print_results(report_run(out, quiet=silent), as_json)


def regrade(
    files: Annotated[list[Path], typer.Argument(help="Files of answers (bon list formats).")],
    reader: Annotated[
        list[str] | None,
        typer.Option(help="all, official, strict, lmms-eval or vlmevalkit; may be repeated."),
    ] = None,
    pattern: Annotated[
        str, typer.Option(help="One more reader: an RE2 pattern whose one group is the letter.")
    ] = "",
    columns: Annotated[
        list[str] | None, typer.Option(metavar="ROLE=COLUMN", help="Where a role is.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="What the files are.")] = "",
    questions: Annotated[
        str,
        typer.Option(help="What logs without questions are about: a benchmark, a file or a run."),
    ] = "",
    as_json: Json = False,
) -> None:
    """Say how right the same answers are under every answer reader, and where those differ."""
    from bon.commands.regrade import chosen_readers, lines, regrade_files

    readers = chosen_readers(reader or ["all"], pattern)
    found = regrade_files(files, readers, columns=columns or [], form=form, questions=questions)
    typer.echo(found.model_dump_json() if as_json else "\n".join(lines(found)))


def correlate(
    table: Annotated[
        Path, typer.Argument(help="CSV: rewarder, benchmark scores, Best-of-N accuracy.")
    ],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for plot and JSON.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Say how well benchmark scores predict Best-of-N accuracy, from published numbers."""
    from bon.commands.correlate import correlate_file

    typer.echo(correlate_file(table, out, as_json=as_json))
