"""Commands that compute, and those that plan and watch runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from bon.commands import options
from bon.commands.options import emit

if TYPE_CHECKING:
    from bon.planning.setup import Setup


def run(
    file: options.File,
    out: options.RunOut = None,
    limit: options.Limit = None,
    seed: options.Seed = None,
    sets: options.Sets = None,
    ray_address: options.RayAddress = None,
    retry_errors: options.Retry = False,
    replace: options.Replace = False,
    allow_remote_code: options.RemoteCode = False,
    pilot: Annotated[
        int | None, Option(help="Judge about PILOT questions; estimate the study size.", min=20)
    ] = None,
    repeat_check: Annotated[
        int | None,
        Option(help="Number of items to judge twice.", min=1),
    ] = None,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Run an experiment, or resume it: only missing rows are computed."""
    from bon.commands.plan_text import needs
    from bon.core.console import say
    from bon.planning.plan import make_plan
    from bon.planning.setup import read_experiment
    from bon.running.runner import run as run_setup

    settings = options.settings_of(sets, limit, seed, ray_address)
    if allow_remote_code:
        settings.append("allow_remote_code=true")
    if repeat_check is not None:
        settings.append(f"judging.repeat_check={repeat_check}")
    setup = read_experiment(file, settings)
    directory = run_directory(out, setup, file)
    silent = quiet or as_json
    if pilot is not None:
        count = make_plan(setup, directory).questions.count
        settings.append(f"questions.subset={min(1.0, pilot / count):g}")
        setup = read_experiment(file, settings)
    if not (silent or (directory / "run.sqlite").exists()):
        plan = make_plan(setup, here=setup.experiment.cluster.address is None)
        for line in needs(plan) if plan.is_large else ():
            say(line)
    path = run_setup(
        setup,
        directory,
        quiet=silent,
        retry_errors=retry_errors,
        replace=replace,
    )
    options.print_results(path, as_json)
    if pilot is not None and not silent:
        from bon.running.reporting import read_results

        for needed in read_results(directory).needed:
            typer.echo(needed.sentence)


def plan(
    file: options.File,
    out: options.RunOut = None,
    limit: options.Limit = None,
    seed: options.Seed = None,
    sets: options.Sets = None,
    as_json: options.Json = False,
) -> None:
    """Estimate calls, reuse and cost before running."""
    from bon.commands.plan_text import show_plan
    from bon.planning.plan import make_plan
    from bon.planning.setup import read_experiment

    setup = read_experiment(file, options.settings_of(sets, limit, seed))
    directory = run_directory(out, setup, file)
    plan = make_plan(setup, directory, here=setup.experiment.cluster.address is None)
    emit(plan.as_dict(), lambda: show_plan(plan), as_json)


def status(directory: options.Directory, as_json: options.Json = False) -> None:
    """Show the progress of a run, running or not."""
    from bon.running.status import format_status, run_status

    progress = run_status(directory)
    emit(progress, lambda: format_status(progress), as_json)


def stress(
    directory: options.Directory,
    questions: Annotated[int, Option(min=1, help="Maximum number of questions.")] = 50,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Test whether rewarders prefer adversarial answers to right ones; resumable."""
    from bon.running.reporting import read_results
    from bon.running.stress import stress_run

    stress_run(directory, questions, quiet=quiet or as_json)
    hacks = read_results(directory).hacks
    emit(
        hacks,
        lambda: "\n".join(
            f"{hack.rewarder:<28}{hack.attack:<24}"
            f"wins {100 * (hack.wins.value or 0):5.1f} % of {hack.num_pairs}"
            for hack in hacks
        ),
        as_json,
    )


def run_directory(out: Path | None, setup: "Setup", file: Path) -> Path:
    """Return the run directory: `out`, that of a run's own experiment.yaml, or runs/NAME."""
    if out is None and file.name == "experiment.yaml" and (file.parent / "run.sqlite").is_file():
        return file.parent
    return out or Path("runs") / setup.experiment.name.replace(" ", "-")


# ------------------------------------------------------------------ batch files

batch_app = typer.Typer(
    no_args_is_help=True,
    help="Query endpoints through OpenAI batch files, often at half price (or vllm run-batch).",
)


@batch_app.command()
def write(
    file: options.File,
    out: options.RunOut = None,
    max_cost: Annotated[float | None, Option(help="Maximum cost in US dollars.", min=0)] = None,
    price_share: Annotated[float, Option(help="Batch price / card price.", min=0, max=1)] = 0.5,
    image_tokens: Annotated[int, Option(help="Maximum tokens billed per image.", min=0)] = 1500,
    limit: options.Limit = None,
    sets: options.Sets = None,
    retry_errors: Annotated[
        bool, Option("--retry-errors", help="Write failed requests again.")
    ] = False,
    quiet: options.Quiet = False,
) -> None:
    """Write the next requests of an experiment to batch files: candidates, then judgements."""
    from bon.planning.setup import read_experiment
    from bon.running.batches import write_batch

    setup = read_experiment(file, options.settings_of(sets, limit))
    directory = run_directory(out, setup, file)
    batch = write_batch(
        setup,
        directory,
        max_cost=max_cost,
        share=price_share,
        image_tokens=image_tokens,
        retry_errors=retry_errors,
        quiet=quiet,
    )
    for path in batch.files:
        typer.echo(path)
    cost = f", at most ${batch.max_cost:.2f}" if batch.max_cost else ""
    typer.echo(f"{batch.requests} requests written{cost}, {batch.outstanding} pending", err=True)
    if batch.left_out:
        typer.echo(f"{batch.left_out} left out: they would exceed --max-cost", err=True)
    if batch.requests + batch.outstanding + batch.left_out:
        typer.echo(f"then: bon batch read ANSWERS… --out {directory}", err=True)
    else:
        typer.echo(f"no requests left: bon run {file} --out {directory}", err=True)


@batch_app.command()
def read(
    files: Annotated[list[Path], Argument(help="Output and error files of the batch.")],
    out: options.Out,
    quiet: options.Quiet = False,
) -> None:
    """Read a batch's replies, in any order; `bon batch write` then writes the next requests."""
    from bon.running.batches import read_batch

    replies, rows = read_batch(out, files, quiet=True)
    if quiet:
        return
    typer.echo(f"{replies.new} answers, {replies.errors} of them errors: {rows} rows stored")
    for count, what in (
        (replies.transient, "transient errors, which the next `bon batch write` retries"),
        (replies.repeated, "read before"),
        (replies.unknown, "to requests of another run: left out"),
        (replies.invalid, "incomplete lines (a truncated file?): left out"),
    ):
        if count:
            typer.echo(f"{count} {what}")
    typer.echo("next: `bon batch write` writes further requests, if any", err=True)
