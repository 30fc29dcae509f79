"""`bon curate`: a reward benchmark from judged runs, step by step."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from bon.commands import options
from bon.commands.options import emit
from bon.core.errors import Incomplete

if TYPE_CHECKING:
    from bon.curating.workbench import Workbench

app = typer.Typer(
    no_args_is_help=True,
    help="Make a reward benchmark from finished runs: init, propose, draft, annotate, audit, "
    "freeze, predict.",
)

Bench = Annotated[Path, Argument(help="Folder of the benchmark (bon curate init).")]


def _open(directory: Path) -> "Workbench":
    from bon.curating.workbench import open_workbench

    return open_workbench(directory)


@app.command()
def init(
    runs: Annotated[list[Path], Argument(help="Finished run directories.")],
    out: Annotated[Path, Option("--out", "-o", help="Folder of the new benchmark.")],
    items: Annotated[int, Option(min=10, help="Number of items.")] = 300,
    seed: Annotated[int, Option(min=0, help="Seed of the draw.")] = 0,
    held_out: Annotated[
        float, Option(min=0, max=0.9, help="Share of questions to keep unpublished.")
    ] = 0.3,
) -> None:
    """Check runs and write a recipe to edit: what to draw and how to label it."""
    from bon.curating.judged_runs import begin

    bench = begin(runs, out, items=items, seed=seed, held_out=held_out)
    typer.echo(f"{bench.recipe_path}: edit it, then bon curate propose {out}")


@app.command()
def propose(directory: Bench, quiet: options.Quiet = False, as_json: options.Json = False) -> None:
    """Draw items by the recipe and store each item's inclusion probability."""
    from bon.curating.propose import propose as draw

    proposal = draw(_open(directory), quiet=quiet or as_json)
    emit(proposal, proposal.text, as_json)


@app.command()
def judge(directory: Bench) -> None:
    """Write the experiment that makes the missing judgements of items."""
    from bon.curating.item_judgements import write_judging

    typer.echo(write_judging(_open(directory)))


@app.command()
def draft(
    directory: Bench,
    by: Annotated[str, Option(help="Rewarder card whose model writes the drafts.")],
    max_cost: Annotated[float | None, Option(help="Maximum cost in US dollars.", min=0)] = None,
    allow_remote_code: options.RemoteCode = False,
    quiet: options.Quiet = False,
) -> None:
    """Draft label, reason and tag of every item with a judge, hidden until the first answer."""
    from bon.curating.labelling.drafts import draft_experiment, write_drafts
    from bon.planning.setup import prepare
    from bon.running.runner import run

    bench = _open(directory)
    raw = draft_experiment(bench, by, max_cost=max_cost, remote_code=allow_remote_code)
    run(prepare(raw, directory), bench.drafted, quiet=quiet, retry_errors=True, replace=True)
    drafts = write_drafts(bench)
    typer.echo(f"{drafts['read']} drafts, {drafts['unparsed']} replies could not be parsed")
    if missing := drafts["failed"]:
        raise Incomplete(f"{missing} items have no draft", "run the same command again to resume")


@app.command()
def annotate(directory: Bench) -> None:
    """Show each annotator's progress and the address of the labelling page."""
    from bon.curating.labelling.annotation_queue import progress_text

    typer.echo(progress_text(_open(directory)))


@app.command()
def predict(
    directory: Bench,
    on: Annotated[list[Path] | None, Option("--on", help="Another run of these rewarders.")] = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Measure how well the benchmark predicts Best-of-N on questions outside its items."""
    from bon.curating.predict import predict as measure

    prediction = measure(_open(directory), on or [], quiet=quiet or as_json)
    emit(prediction, prediction.text, as_json)


@app.command()
def audit(directory: Bench, as_json: options.Json = False) -> None:
    """Audit labels, annotators, items and shortcuts, at any stage."""
    from bon.curating.audit import audit_text, write_audit

    bench = _open(directory)
    results = write_audit(bench)
    emit(results, lambda: f"{audit_text(results)}\n{bench.audit_page}", as_json)


@app.command()
def freeze(
    directory: Bench,
    version: Annotated[str, Option("--version", "-v", help="Name of the version: 1, 1.2.")],
    licence: Annotated[str, Option("--licence", help="Licence; the sources' or stricter.")] = "",
    private: Annotated[bool, Option("--private", help="Keep the version in the team.")] = False,
    anyway: Annotated[
        str, Option("--anyway", help="Reason to override the audit, for the card.")
    ] = "",
) -> None:
    """Freeze an immutable version: pairs, labels, audit, card and checksums."""
    from bon.curating.freeze import Freezing

    frozen = Freezing(_open(directory), version, licence, private=private, anyway=anyway).write()
    for reason, count in frozen.left_out.items():
        typer.echo(f"{count} items are left out: {reason}")
    if not frozen.labelled:
        typer.echo("no annotator has checked the labels: they come from the answer keys alone")
    typer.echo(f"{frozen.public} items, licence {frozen.licence}: {frozen.folder}")
    if frozen.held_out is not None:
        typer.echo(f"{frozen.num_held_out} held-out items, not to be published: {frozen.held_out}")
