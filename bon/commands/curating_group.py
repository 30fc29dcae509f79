"""`bon curate`: a reward benchmark from judged runs, step by step."""

from pathlib import Path
from typing import Annotated

import typer

from bon.commands.options import Json, Quiet

app = typer.Typer(
    no_args_is_help=True,
    help="Make a reward benchmark of your own from finished runs: init, propose, draft, annotate, "
    "audit, freeze, predict.",
)

Bench = Annotated[Path, typer.Argument(help="Folder of the benchmark that bon curate init made.")]


@app.command()
def init(
    runs: Annotated[list[Path], typer.Argument(help="Finished run directories.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the new benchmark.")],
    items: Annotated[int, typer.Option(min=10, help="How many items are wanted in all.")] = 300,
    seed: Annotated[int, typer.Option(min=0, help="Another seed draws another benchmark.")] = 0,
    held_out: Annotated[
        float, typer.Option(min=0, max=0.9, help="Share of the questions kept unpublished.")
    ] = 0.3,
) -> None:
    """Check runs and write a recipe to edit: what is drawn from them, and how people are asked."""
    from bon.curating.starting import begin

    bench = begin(runs, out, items=items, seed=seed, held_out=held_out)
    typer.echo(f"{bench.recipe_path}: edit it, then bon curate propose {out}")


@app.command()
def propose(directory: Bench, quiet: Quiet = False, as_json: Json = False) -> None:
    """Draw items from the runs by the recipe; each keeps the chance with which it was drawn."""
    from bon.curating.proposal import proposal_text
    from bon.curating.proposing import propose as draw
    from bon.curating.workbench import open_workbench

    found = draw(open_workbench(directory), quiet=quiet or as_json)
    typer.echo(found.model_dump_json(indent=1) if as_json else proposal_text(found))


@app.command()
def judge(directory: Bench) -> None:
    """Write the experiment in which the runs' rewarders judge the items that they did not."""
    from bon.curating.judging import judging_text, write_judging
    from bon.curating.workbench import open_workbench

    bench = open_workbench(directory)
    typer.echo(judging_text(write_judging(bench), bench))


@app.command()
def draft(
    directory: Bench,
    by: Annotated[str, typer.Option(help="Rewarder card whose model writes the drafts.")],
    max_cost: Annotated[
        float | None, typer.Option(help="US dollars that all drafts may cost.", min=0)
    ] = None,
    allow_remote_code: Annotated[
        bool, typer.Option("--allow-remote-code", help="Run code that comes with the model.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Have a judge write label, reason and tag of every item, hidden until people have answered."""
    from bon.core.errors import Incomplete
    from bon.curating.drafting import draft_items, drafted_text, plan_drafts
    from bon.curating.workbench import open_workbench

    bench = open_workbench(directory)
    plan = plan_drafts(bench, by, max_cost=max_cost)
    if not quiet:
        typer.echo(plan.text(), err=True)
    found = draft_items(bench, plan, max_cost=max_cost, remote_code=allow_remote_code)
    typer.echo(drafted_text(found))
    if found.failed or found.left_out:
        raise Incomplete(
            f"{found.failed + found.left_out} items have no draft",
            "run the same command again; what is there is not asked again",
        )


@app.command()
def annotate(
    directory: Bench,
    out: Annotated[Path | None, typer.Argument(help="File or folder to write (--to).")] = None,
    to: Annotated[
        str, typer.Option(help="Another tool to label in: label-studio, argilla, jsonl (or .csv).")
    ] = "",
    source: Annotated[
        Path | None, typer.Option("--from", help="What came back from there: .json, .jsonl, .csv.")
    ] = None,
    drafts: Annotated[
        bool, typer.Option("--drafts", help="Send drafts along: people may see them at once.")
    ] = False,
    annotator: Annotated[str, typer.Option(help="Who answered where the file names nobody.")] = "",
) -> None:
    """Say how far people are; hand the items to another labelling tool, or take answers back."""
    from bon.core.errors import BonError
    from bon.curating.exchange import send_out, standing_text, take_back, taken_text
    from bon.curating.workbench import open_workbench

    bench = open_workbench(directory)
    if bool(to) != (out is not None) or (to and source):
        raise BonError("--to needs the place to write, and goes without --from", "--to jsonl OUT")
    if out is not None:
        for path in send_out(bench, to, out, drafts=drafts):
            typer.echo(path)
    elif source is not None:
        typer.echo(taken_text(take_back(bench, source, annotator)))
    else:
        typer.echo(standing_text(bench))


@app.command()
def predict(
    directory: Bench,
    on: Annotated[
        list[Path] | None, typer.Option("--on", help="Another run, with the same rewarders.")
    ] = None,
    selected: Annotated[
        str | None, typer.Option("--select", hidden=True, help="Refused; it says why.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Say how well the benchmark predicts Best-of-N on questions that its items are not about."""
    from bon.core.errors import BonError
    from bon.curating.predicted import prediction_text
    from bon.curating.predicting import predict as measure
    from bon.curating.workbench import open_workbench

    if selected is not None:
        raise BonError(
            "items are not selected by what they predict: among some hundred there are always some "
            "that predict a dozen rewarders of one run, and no others",
            "change quotas or filters in recipe.yaml, which know nothing of Best-of-N",
        )
    found = measure(open_workbench(directory), on or [], quiet=quiet or as_json)
    typer.echo(found.model_dump_json(indent=1) if as_json else prediction_text(found))


@app.command()
def audit(directory: Bench, as_json: Json = False) -> None:
    """Say how far the items can be trusted: labels, annotators, items, shortcuts; at any stage."""
    from bon.curating.audit import write_audit
    from bon.curating.audit_words import audit_text
    from bon.curating.workbench import open_workbench

    bench = open_workbench(directory)
    found = write_audit(bench)
    typer.echo(
        found.model_dump_json(indent=1) if as_json else f"{audit_text(found)}\n{bench.audit_page}"
    )


@app.command()
def freeze(
    directory: Bench,
    version: Annotated[str, typer.Option("--version", "-v", help="Name of the version: 1, 1.2.")],
    licence: Annotated[
        str,
        typer.Option("--licence", help="Pass it on under this; not freer than its sources."),
    ] = "",
    private: Annotated[
        bool, typer.Option("--private", help="Keep it in the team, whatever licences say.")
    ] = False,
    anyway: Annotated[
        str, typer.Option("--anyway", help="Why, if the audit says no; the card repeats it.")
    ] = "",
) -> None:
    """Make a version that does not change any more: pairs, labels, audit, card and checksums."""
    from bon.curating.freezing import Freezing
    from bon.curating.workbench import open_workbench

    bench = open_workbench(directory)
    done = Freezing(bench, version, licence, private=private, anyway=anyway).write()
    for why, count in done.left_out.items():
        typer.echo(f"{count} items are left out: {why}")
    typer.echo(f"{done.public} items, licence {done.licence}: {done.folder}")
    if done.held_out is not None:
        typer.echo(f"{done.kept_back} items on questions to measure on, not to publish: "
                   f"{done.held_out}")  # fmt: skip
