"""`bon curate`: a reward benchmark from judged runs or preference sets, in four steps."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from bon.commands import options
from bon.commands.options import echo, emit
from bon.core.errors import BonError

if TYPE_CHECKING:
    from bon.curating.workbench import Workbench

curate = typer.Typer(
    no_args_is_help=True,
    help="Make a reward benchmark from finished runs or preference sets: draw, label, audit, "
    "freeze.",
)

Bench = Annotated[Path, Argument(help="Folder of the benchmark (bon curate draw).")]


def _open(directory: Path) -> "Workbench":
    from bon.curating.workbench import open_workbench

    return open_workbench(directory)


@curate.command()
def draw(
    out: Annotated[Path, Option("--out", "-o", help="Folder of the benchmark.")],
    runs: Annotated[list[Path] | None, Argument(help="Finished run directories.")] = None,
    sets: Annotated[
        list[str] | None,
        Option("--from", help="Preference set: a benchmark, BENCHMARK:FILE or a file of pairs."),
    ] = None,
    items: Annotated[int, Option(min=10, help="Number of items.")] = 300,
    seed: Annotated[int, Option(min=0, help="Seed of the draw.")] = 0,
    held_out: Annotated[
        float, Option(min=0, max=0.9, help="Share of questions to keep unpublished.")
    ] = 0.3,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Draw items from judged runs or preference sets; again by the recipe, once it is edited."""
    from bon.curating.judged_runs import begin
    from bon.curating.propose import propose
    from bon.curating.workbench import Workbench

    begins = runs or sets or not Workbench(out).recipe_path.exists()
    if begins:
        begin(runs or [], out, sets=sets or [], items=items, seed=seed, held_out=held_out)
    try:
        proposal = propose(_open(out), quiet=quiet or as_json)
    except BonError:
        if begins:  # so that the same command can be tried on other sources
            (out / "recipe.yaml").unlink()
        raise
    emit(proposal, proposal.text, as_json)


@curate.command()
def audit(directory: Bench, as_json: options.Json = False) -> None:
    """Audit labels and shortcuts, at any stage."""
    from bon.curating.audit import audit_text, write_audit

    bench = _open(directory)
    results = write_audit(bench)
    emit(results, lambda: f"{audit_text(results)}\n{bench.audit_path}", as_json)


@curate.command()
def freeze(
    directory: Bench,
    version: Annotated[str, Option("--version", "-v", help="Name of the version: 1, 1.2.")],
    licence: Annotated[str, Option("--licence", help="Licence, which all sources permit.")] = "",
    private: Annotated[bool, Option("--private", help="Keep the version in the team.")] = False,
    anyway: Annotated[
        str, Option("--anyway", help="Reason to override the audit, for the card.")
    ] = "",
) -> None:
    """Freeze an immutable version: pairs, labels, audit, card and checksums."""
    from bon.curating.freeze import Freezing

    frozen = Freezing(_open(directory), version, licence, private=private, anyway=anyway).write()
    for reason, count in frozen.left_out.items():
        echo(f"{count} items are left out: {reason}")
    if not frozen.labelled:
        echo("no annotator has checked the labels: they come from the answer keys alone")
    echo(f"{frozen.public} items, licence {frozen.licence}: {frozen.folder}")
    if frozen.held_out is not None:
        echo(f"{frozen.num_held_out} held-out items, not to be published: {frozen.held_out}")
